"""EU-Moths and Ecuador-Moths as they are published, and the compact zip."""

import json
import zipfile

import pytest
import torch

from tokenstn.data import ImageDataset, UnreadableImageError, open_images, read_moths, split_table

from .pictures import picture, shared


def eu_moths(folder, names=True):
    paths = [f"{species}/märz {k}.jpg" for species in ("abrostola", "zygaena") for k in range(4)]
    for path in paths:
        picture(folder / "images" / path)
    (folder / "images.txt").write_text("".join(f"{k} {path}\n" for k, path in enumerate(paths)), encoding="utf-8")
    (folder / "labels.txt").write_text("0\n" * 4 + "1\n" * 4)
    (folder / "tr_ID.txt").write_text("0\n1\n2\n3\n" * 2)
    if names:
        (folder / "class_names.txt").write_text("abrostola\nzygaena\n")
    return folder


def ecuador_moths(folder):
    paths = [f"images/Ec-Geo-{k}.jpg" for k in (30, 4, 100, 7)]
    for path in paths:
        picture(folder / path)
    (folder / "imagelist.txt").write_text("\n".join(paths))
    (folder / "labels.txt").write_text("17\n905\n17\n905\n")
    (folder / "tr_ID.txt").write_text("1\n1\n0\n0\n")
    return folder


def test_eu_moths_have_four_folds_of_which_one_is_the_test(tmp_path):
    table = open_images(eu_moths(tmp_path))
    assert table.classes == ("abrostola", "zygaena") and table.labels.tolist() == [0] * 4 + [1] * 4
    assert table.split("test").tolist() == [0, 4] and table.split("train").tolist() == [1, 2, 3, 5, 6, 7]
    assert table.read(0).shape == (3, 10, 12)


def test_a_fold_can_be_kept_for_choosing(tmp_path):
    table = open_images(eu_moths(tmp_path), val_fold=1)
    assert {name: rows.tolist() for name, rows in table.splits.items()} == {
        "train": [2, 3, 6, 7], "val": [1, 5], "test": [0, 4],
    }  # fmt: skip
    for wrong in (0, 7):
        with pytest.raises(ValueError, match=rf"val_fold is one of them beside test_fold=0.*got {wrong}"):
            open_images(tmp_path, val_fold=wrong)
    assert open_images(tmp_path, test_fold=2).split("test").tolist() == [2, 6]
    with pytest.raises(ValueError, match=r"folds \[0, 1, 2, 3\]"):
        open_images(tmp_path, test_fold=4)


def test_without_class_names_the_numbers_are_the_names(tmp_path):
    assert open_images(eu_moths(tmp_path, names=False)).classes == ("0", "1")


def test_ecuador_moths_have_gaps_in_their_labels(tmp_path):
    table = open_images(ecuador_moths(tmp_path))
    assert table.classes == ("17", "905") and table.labels.tolist() == [0, 1, 0, 1]
    assert table.split("train").tolist() == [0, 1] and table.split("test").tolist() == [2, 3]
    assert table.read(2).shape == (3, 10, 12)


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("labels.txt", "0\n1\n", "has 2 lines, images.txt has 8"),
        ("labels.txt", "0\n" * 7 + "5\n", "label 5, class_names.txt names 0 to 1"),
        ("labels.txt", "0\n" * 7 + "x\n", "line 'x'"),
        ("tr_ID.txt", "0\n" * 7 + "x\n", "line 'x'"),
        ("images.txt", "0 ../../outside.jpg\n" * 8, "leaves its folder"),
    ],
)
def test_what_is_wrong_with_the_lists_is_said(tmp_path, file, text, reason):
    (eu_moths(tmp_path) / file).write_text(text)
    with pytest.raises(ValueError, match=reason):
        open_images(tmp_path)


def moth_zip(path, meta, images=("0.jpg", "1.jpg", "2.jpg")):
    with zipfile.ZipFile(path, "w") as file:
        for name in images:
            file.write(picture(path.parent / name), name)
        if meta is not None:
            file.writestr("meta.json", json.dumps(meta))
    return path


def test_the_zip_is_read_in_place(tmp_path):
    table = open_images(moth_zip(tmp_path / "moths.zip", [["0.jpg", 3, 1], ["2.jpg", 11, 0], ["1.jpg", 3, 2]]))
    assert table.classes == ("3", "11") and table.labels.tolist() == [0, 1, 0]
    assert table.split("test").tolist() == [1] and table.split("train").tolist() == [0, 2]
    assert table.read(1).shape == (3, 10, 12)
    assert table.item_name(1).endswith("moths.zip/2.jpg")


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        (None, "no meta.json"),
        ({"a": 1}, "list of"),
        ([["0.jpg", 1]], "list of"),
        ([["0.jpg", 1, 0], ["9.jpg", 1, 1]], "lists '9.jpg'"),
        ([["0.jpg", 1, 1]], "folds"),
    ],
)
def test_what_is_wrong_with_the_zip_is_said(tmp_path, meta, reason):
    with pytest.raises(ValueError, match=reason):
        open_images(moth_zip(tmp_path / "moths.zip", meta))


def test_a_broken_archive_and_a_broken_member_are_reported(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"PK but not much")
    with pytest.raises(ValueError, match="no zip file"):
        open_images(tmp_path / "x.zip")
    path = moth_zip(tmp_path / "moths.zip", [["0.jpg", 0, 0], ["1.jpg", 1, 1]])
    content = bytearray(path.read_bytes())
    content[60:200] = bytes(140)
    path.write_bytes(content)
    with pytest.raises(UnreadableImageError, match=r"moths\.zip/0\.jpg"):
        open_images(path).read(0)


def test_the_real_eu_moths():
    table = split_table(read_moths(shared("eu_moths_196.zip")))
    assert len(table) == 2205 and len(table.classes) == 200 and len(table.split("test")) == 552
    assert len(table.split("train")) + len(table.split("val")) == 1653
    assert set(table.labels[table.split("train")].tolist()) == set(range(200))
    loader = torch.utils.data.DataLoader(ImageDataset(table, "val", size=(96, 96)), batch_size=4)
    batch = next(iter(loader))
    assert batch["image"].shape == (4, 3, 96, 96) and batch["image"].float().std() > 10
    assert batch["photo_size"].unique().tolist() == [196]
