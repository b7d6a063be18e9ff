"""One door: names, paths and torch data sets go in, a table comes out; anything else gets a list of what may."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.utils.data import IterableDataset, TensorDataset
from torchvision.datasets import ImageFolder

from tokenstn.data import ImageDataset, UnreadableImageError, collate, open_images, read_dataset

from .pictures import noise, picture, shared


class Photos(torch.utils.data.Dataset):
    """Elements as they are given; labels last."""

    def __init__(self, elements, **attributes):
        self.elements = elements
        self.__dict__.update(attributes)

    def __len__(self):
        return len(self.elements)

    def __getitem__(self, index):
        return self.elements[index]


def test_a_torch_dataset_of_pil_images_is_read():
    pil = [Image.fromarray(noise(9, 7, seed=k)) for k in range(4)]
    table = open_images(Photos([(image, k % 2) for k, image in enumerate(pil)], classes=["cat", "dog"]))
    assert table.labels.tolist() == [0, 1, 0, 1] and table.classes == ("cat", "dog") and table.name == "Photos"
    assert torch.equal(table.read(2), torch.from_numpy(noise(9, 7, seed=2)).movedim(-1, 0))
    assert ImageDataset(table, size=(8, 8), channels=1)[3]["image"].shape == (1, 8, 8)


@pytest.mark.parametrize("floating", [False, True])
def test_a_torch_dataset_of_tensors_is_read(floating):
    pixels = torch.from_numpy(noise(8, 8)).movedim(-1, 0)[None].repeat(3, 1, 1, 1)
    table = open_images(TensorDataset(pixels / 255 if floating else pixels, torch.tensor([2, 0, 1])))
    assert table.classes == ("0", "1", "2") and torch.equal(table.read(0), pixels[0])


def test_grey_and_unlabelled_elements_and_label_vectors():
    grey = torch.zeros(8, 8, dtype=torch.uint8)
    assert open_images(Photos([grey, grey])).labels.tolist() == [-1, -1]
    assert open_images(Photos([grey]), channels=1).read(0).shape == (1, 8, 8)
    several = open_images(Photos([(grey, [0, 1]), (grey, [1, 0])]))
    assert several.multi_label and several.labels.tolist() == [[0, 1], [1, 0]]
    single = open_images(Photos([(grey, torch.tensor([0])), (grey, torch.tensor([1]))]))
    assert not single.multi_label and single.labels.tolist() == [0, 1]


def test_targets_spare_reading_the_images():
    class Unread(Photos):
        def __getitem__(self, index):
            raise AssertionError("read too early")

    assert open_images(Unread([0, 0], targets=[1, 0])).labels.tolist() == [1, 0]


def test_a_dict_of_data_sets_has_their_splits():
    image = torch.zeros(1, 8, 8, dtype=torch.uint8)
    table = open_images({"train": Photos([(image, 0), (image, 1)]), "test": Photos([(image, 1)])})
    assert table.split("train").tolist() == [0, 1] and table.split("test").tolist() == [2]
    assert table.labels.tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="splits are called train, val, test"):
        open_images({"dev": Photos([(image, 0)])})


def folders(root, **classes):
    """An ImageFolder for each split, with one picture of each class."""
    for split, names in classes.items():
        for name in names:
            picture(root / split / name / "1.png")
    return {split: ImageFolder(root / split) for split in classes}


def test_every_split_is_read_by_its_own_names(tmp_path):
    table = open_images(folders(tmp_path, train="abc", test="ac"))
    assert table.classes == ("a", "b", "c") and table.labels[table.split("test")].tolist() == [0, 2]
    for item, label in zip(table.items, table.labels.tolist(), strict=True):
        assert Path(item.dataset.samples[item.index][0]).parent.name == table.classes[label]
    more = open_images(folders(tmp_path / "more", train="ac", test="abc"))
    assert more.classes == ("a", "c", "b") and more.labels[more.split("test")].tolist() == [0, 2, 1]


def test_splits_that_cannot_be_read_by_one_list_of_names_are_refused():
    image = torch.zeros(1, 8, 8, dtype=torch.uint8)
    several = {"train": Photos([(image, [0, 1])], classes="ab"), "test": Photos([(image, [0, 1])], classes="ba")}
    with pytest.raises(ValueError, match="name their labels differently"):
        read_dataset(several)
    for wrong, reason in (("a", "has the label 1, and 1 classes"), ("aa", "names a class twice")):
        parts = {"train": Photos([(image, 0)], classes="ab"), "test": Photos([(image, 1)], classes=wrong)}
        with pytest.raises(ValueError, match=reason):
            read_dataset(parts)


def test_labels_are_those_that_the_elements_have():
    image = torch.zeros(1, 8, 8, dtype=torch.uint8)
    turned_around = Photos(
        [(image, 2), (image, 1), (image, 0)], targets=[0, 1, 2], classes="abc", target_transform=lambda label: 2 - label
    )
    table = open_images(turned_around)
    assert table.labels.tolist() == [2, 1, 0]
    assert table.classes == ("0", "1", "2"), "what is called a is no longer 0"
    unchanged = Photos([(image, 0), (image, 1)], targets=[0, 1], classes="ab", target_transform=int)
    assert open_images(unchanged).classes == ("a", "b")


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (torch.full((3, 4, 4), -1.5), "without normalisation"),
        (torch.zeros(3, 4, 4, dtype=torch.int32), "int32"),
        (torch.zeros(5, 4, 3), r"\[5, 4, 3\]"),
        ("a path", "gave str"),
        (Image.new("F", (2, 2)), "floating-point"),
    ],
)
def test_an_element_that_is_no_image_is_named(image, reason):
    table = open_images(Photos([(image, 0)]))
    with pytest.raises(UnreadableImageError, match=rf"Photos\[0\]: .*{reason}"):
        table.read(0)


@pytest.mark.parametrize(
    ("elements", "reason"),
    [
        ([({"image": 1}, "cat")], "whole numbers"),
        ([{"image": 1}], "gives dicts"),
        ([(0, 0.5)], "whole numbers"),
        ([(0, [1, 0]), (0, [1])], "of one length"),
        ([], "no image"),
    ],
)
def test_what_is_wrong_with_the_labels_is_said(elements, reason):
    with pytest.raises(ValueError, match=reason):
        read_dataset(Photos(elements))


def test_a_stream_is_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    for given in (Stream(), {"train": Stream()}, {"train": "a folder"}):
        with pytest.raises(ValueError, match="map-style"):
            open_images(given)


def test_a_file_that_the_data_set_cannot_read_is_skipped_like_any_other(tmp_path):
    picture(tmp_path / "a" / "1.png"), picture(tmp_path / "a" / "2.png").write_bytes(b"broken")
    dataset = ImageDataset(open_images(ImageFolder(tmp_path)), size=(8, 8), on_bad="skip")
    batch = collate([dataset[0], dataset[1]])
    assert batch["index"].tolist() == [0] and batch["bad"][0][0] == "ImageFolder[1]"


def test_the_medmnist_package_can_be_the_source():
    medmnist = pytest.importorskip("medmnist")
    root = shared("breastmnist.npz").parent
    given = {split: medmnist.BreastMNIST(split=split, root=root) for split in ("val", "test")}
    table, direct = open_images(given, channels=1), open_images(root / "breastmnist.npz")
    assert torch.equal(table.labels[table.split("test")], direct.labels[direct.split("test")])
    assert torch.equal(table.read(5), direct.read(int(direct.split("val")[5])))


def test_a_table_is_itself_and_one_image_is_a_data_set(tmp_path):
    table = open_images("digits")
    assert open_images(table) is table
    assert open_images(str(picture(tmp_path / "x.JPG"))).labels.tolist() == [-1]


def test_a_class_without_an_image_is_refused():
    image = torch.zeros(1, 8, 8, dtype=torch.uint8)
    with pytest.raises(ValueError, match="no image of class 'dog'"):
        open_images(Photos([(image, 0), (image, 2)], classes=["cat", "dog", "eel"]))


@pytest.mark.parametrize("source", ["digitz", "no/such/folder", 7, None, ["a.png"]])
def test_what_cannot_be_opened_gets_the_list_of_what_can(source):
    with pytest.raises(ValueError, match=r"(?s)a data set is one of.*digits.*folder.*\.csv.*torch Dataset"):
        open_images(source)


def test_a_file_of_an_unknown_kind_is_refused(tmp_path):
    (tmp_path / "x.docx").write_text("")
    with pytest.raises(ValueError, match=r"x\.docx is no data set"):
        open_images(tmp_path / "x.docx")


def test_an_unknown_option_is_refused_with_those_that_are_known(tmp_path):
    picture(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"read_folder, which knows \['labelled', 'classes'\], not \['labeled'\]"):
        open_images(tmp_path, labeled=False)
    with pytest.raises(ValueError, match="no options"):
        open_images("digits", size=8)


def test_the_room_imports_nothing_heavy():
    script = "import tokenstn.data, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert not {"timm", "lightning", "medmnist", "sklearn", "matplotlib"} & set(loaded)
