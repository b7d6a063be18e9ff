"""A limited evaluation looks at all classes, and the checksum knows whether the images are the same."""

import zipfile
from dataclasses import replace

import pytest
import torch
from PIL import Image

from tokenstn.data import ImageTable, ZipMember
from tokenstn.evaluation.sampling import data_checksum, stratified_limit

from ..data.pictures import noise
from .toys import CLASSES, table_of


def lopsided(**changes) -> ImageTable:
    labels = torch.cat((torch.zeros(60), torch.ones(30), torch.full((10,), 2))).long()
    return table_of(100, labels=labels, **changes)


def test_a_limit_keeps_the_proportions_of_the_classes():
    rows = stratified_limit(lopsided(), "test", 50)
    counts = torch.bincount(lopsided().labels[rows], minlength=4).tolist()
    assert len(rows) == 50 and rows.unique().numel() == 50 and torch.equal(rows, rows.sort().values)
    assert abs(counts[0] - 30) <= 1 and abs(counts[1] - 15) <= 1 and abs(counts[2] - 5) <= 1


def test_a_larger_limit_keeps_the_images_of_a_smaller_one():
    small, large = (set(stratified_limit(lopsided(), "test", limit, seed=3).tolist()) for limit in (20, 45))
    assert small < large
    assert small != set(stratified_limit(lopsided(), "test", 20, seed=4).tolist())


def test_no_limit_is_the_whole_split():
    table = table_of(8, splits={"test": torch.tensor([5, 2]), "train": torch.tensor([0])})
    assert stratified_limit(table).tolist() == [2, 5] and stratified_limit(table, None).tolist() == list(range(8))
    assert stratified_limit(table, "test", 7).tolist() == [2, 5]


def test_several_labels_and_no_labels_can_be_limited():
    labels = torch.eye(4).repeat(5, 1)
    table = ImageTable("sets", table_of(20).items, labels, CLASSES, multi_label=True)
    assert table.labels[stratified_limit(table, None, 8)].sum(0).tolist() == [2, 2, 2, 2]
    unlabelled = table_of(20, labels=torch.full((20,), -1))
    assert len(stratified_limit(unlabelled, None, 7)) == 7


def test_bad_limits_and_missing_splits_get_a_sentence():
    with pytest.raises(ValueError, match="limit=0: at least one image"):
        stratified_limit(table_of(8), "test", 0)
    with pytest.raises(ValueError, match=r"has no split 'val' \(there are: test\)"):
        stratified_limit(table_of(8), "val")


def test_the_checksum_sees_pixels_labels_and_boxes():
    table, rows = table_of(8), torch.arange(4)
    first = data_checksum(table, rows)
    assert first == data_checksum(table_of(8), rows) and len(first) == 64
    assert data_checksum(replace(table, name="elsewhere"), rows) == first
    other_pixels = table.items.clone()
    other_pixels[2, 0, 0, 0] += 1
    other_labels = table.labels.clone()
    other_labels[1] = 3
    changed = {
        data_checksum(replace(table, items=other_pixels), rows),
        data_checksum(replace(table, labels=other_labels), rows),
        data_checksum(replace(table, boxes=torch.tensor([[0, 0, 9, 9]] * 8)), rows),
        data_checksum(table, rows[:3]),
        first,
    }
    assert len(changed) == 5


def test_a_file_has_the_same_checksum_in_a_folder_and_in_a_zip(tmp_path):
    Image.fromarray(noise(9, 9)).save(tmp_path / "a.png")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(tmp_path / "a.png", "inside/a.png")
    label = torch.tensor([0])
    plain = ImageTable("folder", [tmp_path / "a.png"], label, ("a",))
    zipped = ImageTable("zip", [ZipMember(tmp_path / "all.zip", "inside/a.png")], label, ("a",))
    gone = ImageTable("gone", [tmp_path / "b.png"], label, ("a",))
    row = torch.tensor([0])
    assert data_checksum(plain, row) == data_checksum(zipped, row) != data_checksum(gone, row)
