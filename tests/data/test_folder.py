"""Folders of images: the three layouts, their order, and what is wrong with the others."""

import pytest

from tokenstn.data import open_images, read_folder

from .pictures import picture


def test_class_folders_are_classes_in_natural_order(tmp_path):
    for name in ("c10/b.png", "c9/img10.png", "c9/img9.jpg", "c9/deep/er/x.png"):
        picture(tmp_path / name)
    for junk in ("c9/notes.txt", "c9/.hidden.png", "Thumbs.db", "readme.md"):
        (tmp_path / junk).write_text("no image")
    picture(tmp_path / "__MACOSX" / "c9" / "x.png")
    table = read_folder(tmp_path)
    assert table.classes == ("c9", "c10")
    assert [path.relative_to(tmp_path).as_posix() for path in table.items] == [
        "c9/deep/er/x.png", "c9/img9.jpg", "c9/img10.png", "c10/b.png",
    ]  # fmt: skip
    assert table.labels.tolist() == [0, 0, 0, 1]
    assert not table.splits
    assert table.read(0).shape == (3, 10, 12)


@pytest.mark.parametrize("val", ["val", "valid", "Validation"])
def test_split_folders_are_splits(tmp_path, val):
    for name in ("train/cat/1.png", "train/dog/1.png", f"{val}/dog/2.png", "test/cat/3.png", "test/dog/3.png"):
        picture(tmp_path / name)
    table = open_images(tmp_path)
    assert table.classes == ("cat", "dog")
    names = {split: [table.items[row].name for row in rows] for split, rows in table.splits.items()}
    assert list(table.splits) == ["train", "val", "test"]
    assert names == {"train": ["1.png", "1.png"], "val": ["2.png"], "test": ["3.png", "3.png"]}
    assert table.labels[table.split("val")].tolist() == [1]


def test_a_class_may_be_called_train(tmp_path):
    for name in ("bus/1.png", "car/1.png", "train/1.png"):
        picture(tmp_path / name)
    table = read_folder(tmp_path)
    assert table.classes == ("bus", "car", "train") and not table.splits


def test_folders_without_images_are_neither_splits_nor_classes_beside_splits(tmp_path):
    for name in ("train/cat/1.png", "val/cat/1.png"):
        picture(tmp_path / name)
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "all.json").write_text("{}")
    assert list(read_folder(tmp_path).splits) == ["train", "val"]


@pytest.mark.parametrize("inside", ["", "train/"])
def test_classes_come_in_the_order_of_a_classifier_that_is_given(tmp_path, inside):
    names = ["class1", "class2", "class10"]
    for name in names:
        picture(tmp_path / inside / name / "1.png")
    torchvisions = sorted(names)
    table = open_images(tmp_path, classes=torchvisions)
    assert table.classes == tuple(torchvisions) != read_folder(tmp_path).classes == tuple(names)
    for path, label in zip(table.items, table.labels.tolist(), strict=True):
        assert path.parent.name == table.classes[label]
    with pytest.raises(ValueError, match="has the label 'class10', which is none of the 2 classes"):
        read_folder(tmp_path, classes=names[:2])


def test_a_flat_folder_is_unlabelled_and_so_may_a_split_be(tmp_path):
    picture(tmp_path / "flat" / "b.png"), picture(tmp_path / "flat" / "a.PNG")
    table = open_images(tmp_path / "flat")
    assert [path.name for path in table.items] == ["a.PNG", "b.png"]
    assert table.labels.tolist() == [-1, -1] and table.classes == ()
    picture(tmp_path / "half" / "train" / "cat" / "1.png"), picture(tmp_path / "half" / "test" / "2.png")
    half = open_images(tmp_path / "half")
    assert half.labels[half.split("train")].tolist() == [0] and half.labels[half.split("test")].tolist() == [-1]


def test_folder_names_are_no_labels_when_told_so(tmp_path):
    picture(tmp_path / "trap1" / "a.png"), picture(tmp_path / "b.png")
    (tmp_path / "trap2").mkdir()
    table = open_images(tmp_path, labelled=False)
    assert len(table) == 2 and table.classes == () and table.labels.tolist() == [-1, -1]


def test_a_linked_class_is_read_and_a_loop_ends(tmp_path):
    picture(tmp_path / "elsewhere" / "1.png")
    (tmp_path / "set" / "cat").mkdir(parents=True)
    (tmp_path / "set" / "cat" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "loop").symlink_to(tmp_path / "elsewhere")
    assert len(read_folder(tmp_path / "set")) == 1


@pytest.mark.parametrize(
    ("files", "folders", "reason"),
    [
        ([], [], "holds no image"),
        (["a/1.png"], ["b"], "no image of class 'b'"),
        ([], ["a", "b"], "no image in any"),
        (["a/1.png", "2.png"], [], "1 images outside"),
        (["train/a/1.png", "test/b/1.png"], [], "class 'b' not in train"),
        (["train/a/1.png", "more/a/1.png"], [], "move folder 'more' away .*rename folder 'train'.* manifest"),
        (["train/a/1.png", "train/preview.png", "more/1.png"], [], "two ways"),
        (["train/1.png", "test/1.png", "more/1.png"], [], "two ways: .*rename folders 'test', 'train'"),
        (["training/a/1.png", "test/a/1.png"], [], "two ways"),
        (["train/a/1.png", "test/a/1.png", "stray.png"], [], "split folders and also 1 images outside"),
        (["train/a/1.png", "val/a/1.png", "valid/a/1.png"], [], "both the val split"),
        (["train/a/1.png"], ["test"], "split folder .*test holds no image"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(tmp_path, files, folders, reason):
    for name in files:
        picture(tmp_path / name)
    for name in folders:
        (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=reason):
        read_folder(tmp_path)


def test_a_missing_folder_and_a_file_are_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        read_folder(tmp_path / "absent")
    with pytest.raises(ValueError, match="not a folder"):
        read_folder(picture(tmp_path / "x.png"))
