"""Digits, MNIST, RotMNIST and MedMNIST: the same table from each, and no trust in a damaged file."""

import gzip
import struct
import sys

import numpy as np
import pytest
import torch

from tokenstn.data import MEDMNIST_NAMES, open_images, read_medmnist, read_mnist, read_rotmnist, split_table
from tokenstn.data.rotmnist import FILES

from .pictures import noise, shared

LABELS = np.arange(20, dtype=np.uint8) % 10
IMAGES = np.stack([noise(28, 28, 1, seed) for seed in range(20)])


def test_the_digits_are_white_on_black_with_a_margin():
    table = open_images("digits")
    assert table.items.shape == (1797, 1, 28, 28) and table.items.dtype == torch.uint8
    assert table.class_counts().min() > 170 and table.classes == tuple("0123456789")
    inner = table.items[:, :, 4:-4, 4:-4]
    assert inner.sum() == table.items.sum() and inner.max() == 255 and table.items.float().mean() < 100
    assert table.upright and table.channels == 1


def idx(values):
    return (
        struct.pack(">BBBB", 0, 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()
    )


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("given", ["", "MNIST", "MNIST/raw"])
def test_mnist_is_read_from_the_folder_torchvision_makes(tmp_path, packed, given):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part, rows in (("train", slice(0, 12)), ("t10k", slice(10, 20))):
        for name, values in (("images-idx3", IMAGES[rows]), ("labels-idx1", LABELS[rows])):
            target = raw / f"{part}-{name}-ubyte{'.gz' if packed else ''}"
            target.write_bytes(gzip.compress(idx(values)) if packed else idx(values))
    table = open_images(tmp_path / given)
    assert table.name == "mnist" and {name: len(rows) for name, rows in table.splits.items()} == {
        "train": 12,
        "test": 10,
    }
    assert np.array_equal(table.items[table.split("test")][:, 0].numpy(), IMAGES[10:])
    assert table.labels.tolist() == [*LABELS[:12].tolist(), *LABELS[10:].tolist()]


def test_mnist_is_read_from_one_npz(tmp_path):
    np.savez(tmp_path / "mnist.npz", x_train=IMAGES[:10], y_train=LABELS[:10], x_test=IMAGES[10:], y_test=LABELS[10:])
    table = open_images(tmp_path / "mnist.npz")
    assert np.array_equal(table.items[:, 0].numpy(), IMAGES) and table.labels.tolist() == LABELS.tolist()
    assert table.split("test").tolist() == list(range(10, 20))


def test_a_damaged_mnist_is_refused(tmp_path):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(IMAGES)[:-5])
    with pytest.raises(ValueError, match="truncated"):
        read_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(IMAGES))
    with pytest.raises(ValueError, match=r"not complete: there is no .*train-labels"):
        read_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS))[:-9])
    with pytest.raises(ValueError, match="cannot be unpacked"):
        read_mnist(tmp_path)
    with pytest.raises(ValueError, match="holds no MNIST"):
        read_mnist(tmp_path / "..")


def test_a_damaged_npz_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", x_train=IMAGES, y_train=LABELS)
    with pytest.raises(ValueError, match=r"no x_test, y_test; it has x_train, y_train"):
        open_images(tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", x_train=IMAGES, y_train=LABELS[:3], x_test=IMAGES, y_test=LABELS)
    with pytest.raises(ValueError, match=r"20, 28, 28.* with 3 labels"):
        open_images(tmp_path / "y.npz")
    np.savez(tmp_path / "z.npz", x_train=np.array([object()]), y_train=LABELS, x_test=IMAGES, y_test=LABELS)
    with pytest.raises(ValueError, match="allow_pickle"):
        open_images(tmp_path / "z.npz")
    for content in (b"", b"nothing of the kind", (tmp_path / "y.npz").read_bytes()[:100]):
        (tmp_path / "broken.npz").write_bytes(content)
        with pytest.raises(ValueError, match="truncated, or no npz file"):
            open_images(tmp_path / "broken.npz")


def amat(path, images, labels):
    rows = np.concatenate((images.reshape(-1, 784) / 255, labels[:, None]), axis=1)
    np.savetxt(path, rows, fmt="   %.7e")


def test_rotmnist_is_read_from_its_two_text_files(tmp_path):
    for (split, name), rows in zip(FILES.items(), (slice(0, 12), slice(10, 20)), strict=True):
        amat(tmp_path / name, IMAGES[rows], LABELS[rows])
        one = open_images(tmp_path / name)
        assert not one.splits and len(one) == (12 if split == "train" else 10)
    table = open_images(tmp_path)
    assert np.array_equal(table.items[table.split("train")][:, 0].numpy(), IMAGES[:12])
    assert table.labels[table.split("test")].tolist() == LABELS[10:].tolist()
    assert table.upright is False and table.channels == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [("1 2 3\n", "784 pixels and a label"), ("a b\n", "not a table of numbers"), ("", "not a table")],
)
def test_a_damaged_amat_is_refused(tmp_path, text, reason):
    (tmp_path / "x.amat").write_text(text)
    with pytest.raises(ValueError, match=reason):
        open_images(tmp_path / "x.amat")
    with pytest.raises(ValueError, match="not RotMNIST"):
        read_rotmnist(tmp_path)


def test_pixels_out_of_range_are_refused(tmp_path):
    amat(tmp_path / "x.amat", IMAGES.astype(float) * 2, LABELS)
    with pytest.raises(ValueError, match=r"pixels lie in \[0, 1\]"):
        open_images(tmp_path / "x.amat")


def medmnist_file(path, shape, classes, multi_label=False):
    arrays = {}
    for split in ("train", "val", "test"):
        arrays[f"{split}_images"] = np.zeros((30, *shape), dtype=np.uint8)
        several = np.tile(np.eye(classes, dtype=np.int64), (30 // classes + 1, 1))[:30]
        arrays[f"{split}_labels"] = several if multi_label else (np.arange(30) % classes)[:, None].astype(np.uint8)
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("name", MEDMNIST_NAMES)
def test_every_2d_medmnist_set_is_known(tmp_path, name):
    info = pytest.importorskip("medmnist").INFO[name]
    classes, colour = len(info["label"]), info["n_channels"] == 3
    medmnist_file(tmp_path / f"{name}.npz", (28, 28, 3) if colour else (28, 28), classes, name == "chestmnist")
    table = open_images(name, root=tmp_path, verify=False)
    assert table.classes == tuple(info["label"].values())
    assert table.items.shape == (90, 3 if colour else 1, 28, 28) and table.channels == (3 if colour else 1)
    assert table.multi_label == (name == "chestmnist") and list(table.splits) == ["train", "val", "test"]
    with pytest.raises(ValueError, match=f"not the official file .*expected {info['MD5']}"):
        open_images(tmp_path / f"{name}.npz")


def test_the_sizes_of_medmnist_have_their_own_checksums(tmp_path):
    info = pytest.importorskip("medmnist").INFO["breastmnist"]
    path = medmnist_file(tmp_path / "breastmnist_64.npz", (64, 64), 2)
    with pytest.raises(ValueError, match=f"expected {info['MD5_64']}"):
        open_images(path)
    assert open_images("breastmnist_64", root=tmp_path, verify=False).items.shape[-1] == 64


def test_without_the_medmnist_package_breastmnist_works_and_others_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "medmnist", None)
    medmnist_file(tmp_path / "breastmnist.npz", (28, 28), 2)
    assert open_images("breastmnist", root=tmp_path, verify=False).classes == ("malignant", "normal, benign")
    medmnist_file(tmp_path / "pathmnist.npz", (28, 28, 3), 9)
    with pytest.raises(ValueError, match=r"pip install 'tokenstn\[medical\]'"):
        open_images("pathmnist", root=tmp_path)


def test_a_missing_or_misnamed_medmnist_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"there is no .*bloodmnist.npz; download"):
        open_images("bloodmnist", root=tmp_path)
    path = medmnist_file(tmp_path / "mine.npz", (28, 28), 2)
    with pytest.raises(ValueError, match="not called like a MedMNIST file"):
        open_images(path)


def test_the_real_breastmnist_is_the_official_one():
    table = read_medmnist(shared("breastmnist.npz"))
    assert {name: len(rows) for name, rows in table.splits.items()} == {"train": 546, "val": 78, "test": 156}
    assert table.items.shape == (780, 1, 28, 28) and table.classes == ("malignant", "normal, benign")
    assert split_table(table) is table
