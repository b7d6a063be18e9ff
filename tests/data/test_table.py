"""A table says what a data set is, and refuses what cannot be one."""

from dataclasses import replace

import pytest
import torch

from tokenstn.data import ImageTable


def table(labels=(0, 1, 0, 1, 2, -1), **parts):
    images = torch.arange(len(labels), dtype=torch.uint8)[:, None, None, None].expand(-1, 1, 4, 4).contiguous()
    given = {"name": "toy", "items": images, "labels": torch.tensor(labels), "classes": ("a", "b", "c"), "channels": 1}
    return ImageTable(**{**given, **parts})


def test_a_split_is_its_rows_and_a_missing_one_is_named():
    made = table(splits={"train": torch.tensor([0, 1, 4]), "test": torch.tensor([2, 3])})
    assert made.split("test").tolist() == [2, 3]
    with pytest.raises(ValueError, match=r"no split 'val' \(there are: train, test\)"):
        made.split("val")


def test_a_subset_renumbers_everything_that_belongs_to_a_row():
    made = table(
        splits={"train": torch.tensor([0, 1, 4]), "test": torch.tensor([2])},
        groups=list("uvwxyz"),
        boxes=torch.tensor([[0, 0, k + 1, 2] for k in range(6)]),
    )
    part = made.subset(torch.tensor([4, 1, 5]))
    assert part.labels.tolist() == [2, 1, -1]
    assert part.items[:, 0, 0, 0].tolist() == [4, 1, 5]
    assert list(part.groups) == ["y", "v", "z"]
    assert part.boxes[:, 2].tolist() == [5, 2, 6]
    assert {name: rows.tolist() for name, rows in part.splits.items()} == {"train": [1, 0]}


def test_classes_are_counted_and_an_empty_one_is_refused():
    assert table().class_counts().tolist() == [2, 2, 1]
    with pytest.raises(ValueError, match="no image of class 'd'"):
        table(classes=("a", "b", "c", "d")).require_every_class()
    several = table(labels=[[1.0, 0.0], [1.0, 0.0]], classes=("a", "b"), multi_label=True)
    assert several.class_counts().tolist() == [2, 0]
    with pytest.raises(ValueError, match="no image of class 'b'"):
        several.require_every_class()


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"labels": (0, 1, 3)}, r"image 2 of toy has label 3, outside the range: 0 to 2 for 3 classes"),
        ({"labels": (0, -2)}, "label -2, outside"),
        ({"labels": (0.5, 1.0)}, "int64"),
        ({"labels": [[1.0, 0.0, 2.0]], "multi_label": True}, "outside the range: 0 and 1"),
        ({"labels": [[1.0, -1.0, 0.0]], "multi_label": True}, "outside the range"),
        ({"labels": [[1.0, 0.0]], "multi_label": True}, "3 classes"),
        ({"classes": ("a", "a", "b")}, "names a class twice"),
        ({"splits": {"train": torch.tensor([], dtype=torch.int64)}}, "train split of toy is empty"),
        ({"splits": {"dev": torch.tensor([0])}}, "train, val, test"),
        ({"splits": {"train": torch.tensor([6])}}, "outside 0 to 5"),
        ({"splits": {"train": torch.tensor([0, 1]), "val": torch.tensor([1])}}, "image 1 of toy is in more than one"),
        ({"groups": ["x"]}, "6 images but 1 groups"),
        ({"boxes": torch.zeros(6, 4, dtype=torch.int64)}, r"box \[0, 0, 0, 0\]"),
        ({"boxes": torch.tensor([[-1, 0, 3, 3]] * 6)}, "none below 0"),
        ({"boxes": torch.zeros(6, 4)}, "int64"),
        ({"channels": 4}, "channels=4"),
        ({"items": torch.zeros(6, 1, 4, 4)}, "uint8"),
        ({"items": [], "labels": ()}, "no image"),
    ],
)
def test_a_bad_table_is_refused_with_a_sentence(parts, reason):
    with pytest.raises(ValueError, match=reason):
        table(**parts)


def test_unlabelled_rows_are_fine():
    assert len(table(labels=(-1, -1), classes=())) == 2
    assert len(table(labels=[[1.0, 0.0, 1.0], [-1.0, -1.0, -1.0]], multi_label=True)) == 2
    assert len(replace(table(), boxes=torch.tensor([[-1, -1, -1, -1]] * 6))) == 6


def test_images_in_memory_are_read_with_the_channels_asked_for():
    assert table().read(3).shape == (1, 4, 4)
    assert table().read(3, channels=3).unique().tolist() == [3]


def test_a_class_whose_name_is_no_text_is_refused_before_anything_is_trained():
    name = b"caf\xe9".decode("utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match="is no text in UTF-8; rename it"):
        ImageTable(
            "photos", torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.tensor([0, 1]), ("café", name), channels=1
        )
