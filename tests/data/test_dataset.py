"""Images on their way to the network: fitted, numbered, broken ones raised or skipped and never lost from sight."""

import pytest
import torch
from torch.utils.data import DataLoader

from tokenstn.data import (
    ImageDataset,
    ImageTable,
    UnreadableImageError,
    collate,
    fit,
    open_images,
    read_digits,
    split_table,
    to_float,
)

from .pictures import noise, picture


@pytest.fixture
def broken(tmp_path):
    """Six photos in two classes, the third and the fourth of them unreadable."""
    for k in range(6):
        picture(tmp_path / f"c{k % 2}" / f"{k}.png", (40 + k, 30), 10 * k)
    (tmp_path / "c0" / "4.png").write_bytes(b"no image")
    (tmp_path / "c1" / "1.png").write_bytes((tmp_path / "c1" / "1.png").read_bytes()[:50])
    return open_images(tmp_path)


def test_an_element_is_the_fitted_image_its_label_and_its_row():
    table = split_table(open_images("digits"))
    dataset = ImageDataset(table, "test", size=(20, 24), channels=3, resize="squash", interpolation="bilinear")
    sample = dataset[5]
    row = int(table.split("test")[5])
    assert len(dataset) == 180 and sample["index"] == row and sample["label"] == table.labels[row]
    assert torch.equal(sample["image"], fit(table.read(row, 3), (20, 24), "squash", 1.0, "bilinear"))
    assert sample["photo_size"].tolist() == [28, 28]
    assert len(ImageDataset(table, size=(28, 28))) == 1797


def test_a_broken_image_is_an_error_that_names_it(broken):
    with pytest.raises(UnreadableImageError, match=r"4\.png"):
        ImageDataset(broken, size=(8, 8))[2]


@pytest.mark.parametrize("workers", [0, 1])
def test_broken_images_are_skipped_and_listed(broken, workers):
    dataset = ImageDataset(broken, size=(8, 8), on_bad="skip")
    batches = list(DataLoader(dataset, batch_size=4, collate_fn=collate, num_workers=workers))
    assert [batch["index"].tolist() for batch in batches] == [[0, 1], [4, 5]]
    assert batches[0]["label"].tolist() == [0, 0] and batches[1]["image"].shape == (2, 3, 8, 8)
    names = [name.rsplit("/", 1)[-1] for name, _ in batches[0]["bad"]]
    assert names == ["4.png", "1.png"] and batches[1]["bad"] == []
    assert "truncated" in batches[0]["bad"][1][1]
    if workers == 0:
        assert len(dataset.bad) == 2


def test_an_error_in_a_worker_still_names_the_file(broken):
    with pytest.raises(UnreadableImageError) as caught:
        ImageDataset(broken, size=(8, 8))[2]
    again = type(caught.value)(str(caught.value))  # how a DataLoader raises what its worker caught
    assert str(again) == str(caught.value) and "4.png" in again.reason


def test_a_batch_of_broken_images_is_empty_with_the_right_shapes(broken):
    dataset = ImageDataset(broken, size=(8, 9), on_bad="skip")
    batch = collate([dataset[2], dataset[3]])
    assert batch["image"].shape == (0, 3, 8, 9) and batch["label"].shape == (0,) and len(batch["bad"]) == 2


def test_the_box_is_cut_out_first_and_must_lie_in_the_photo(tmp_path):
    image = torch.from_numpy(noise(20, 30)).movedim(-1, 0)
    table = ImageTable(
        "boxes",
        image.expand(3, -1, -1, -1),
        torch.tensor([-1, -1, -1]),
        boxes=torch.tensor([[5, 4, 15, 12], [-1, -1, -1, -1], [5, 4, 31, 12]]),
    )
    dataset = ImageDataset(table, size=(8, 10))
    assert torch.equal(dataset[0]["image"], image[:, 4:12, 5:15])
    assert dataset[0]["photo_size"].tolist() == [20, 30]
    assert torch.equal(dataset[1]["image"], fit(image, (8, 10)))
    with pytest.raises(UnreadableImageError, match=r"box \[5, 4, 31, 12\] reaches outside the photo, 30 wide"):
        dataset[2]


def test_several_labels_are_batched(tmp_path):
    images = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
    table = ImageTable("m", images, torch.eye(4), tuple("abcd"), multi_label=True, channels=1)
    batch = next(iter(DataLoader(ImageDataset(table, size=(8, 8)), batch_size=3, collate_fn=collate)))
    assert batch["label"].shape == (3, 4) and batch["label"].dtype == torch.float32


def test_normalising_agrees_with_torchvision():
    from torchvision.transforms.v2 import functional as reference

    images = torch.from_numpy(noise(8, 8)).movedim(-1, 0)[None]
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    expected = reference.normalize(reference.to_dtype(images, torch.float32, scale=True), mean, std)
    assert torch.allclose(to_float(images, mean, std), expected, atol=1e-6)
    with pytest.raises(ValueError, match="3 channels need as many means"):
        to_float(images, [0.5], [0.5])
    with pytest.raises(ValueError, match="uint8"):
        to_float(images.float(), mean, std)


def test_an_unknown_way_with_broken_images_is_refused(broken):
    with pytest.raises(ValueError, match="raise or skip"):
        ImageDataset(broken, size=(8, 8), on_bad="ignore")


def test_images_in_memory_come_in_whole_batches_that_equal_the_single_ones():
    table = read_digits()
    for size, resize in (((28, 28), "crop"), ((20, 20), "crop"), ((28, 28), "pad")):
        images = ImageDataset(table, size=size, resize=resize)
        whole = collate(images.__getitems__([5, 3, 900]))
        single = collate([images[position] for position in (5, 3, 900)])
        assert whole.keys() == single.keys() and whole["bad"] == []
        for key in ("image", "label", "index", "photo_size"):
            assert torch.equal(whole[key], single[key]) and whole[key].dtype == single[key].dtype, key
