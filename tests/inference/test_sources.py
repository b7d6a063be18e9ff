"""Whatever a person points at becomes one list of images, in one order, without labels."""

import os
import pickle
from pathlib import Path

import pytest
import torch

from tokenstn.data import ZipMember
from tokenstn.data.path_list import PathList
from tokenstn.inference.sources import list_images

from ..data.pictures import picture, shared


@pytest.fixture
def photos(tmp_path) -> Path:
    for name in ("b.png", "a/two.jpg", "a/one.jpg", "train/cat/x.png"):
        picture(tmp_path / "photos" / name)
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    (tmp_path / "photos" / ".hidden.png").write_bytes(b"")
    return tmp_path / "photos"


def names(found) -> list[str]:
    return [found.relative_name(row).as_posix() for row in range(len(found))]


def test_a_folder_is_searched_to_any_depth_whatever_its_folders_are_called(photos):
    found = list_images(photos)
    assert names(found) == ["a/one.jpg", "a/two.jpg", "b.png", "train/cat/x.png"]
    assert found.table.classes == () and bool((found.table.labels == -1).all())


def test_a_glob_a_list_and_a_manifest_name_the_same_images(photos, monkeypatch):
    globbed = list_images(f"{photos}/a/*.jpg")
    (photos / "list.txt").write_text("a/one.jpg\n\n  a/two.jpg  \r\n")
    (photos / "m.csv").write_text("path,label\na/one.jpg,cat\na/two.jpg,dog\n")
    for other in (list_images(photos / "list.txt"), list_images(photos / "m.csv")):
        assert [str(item) for item in other.table.items] == [str(item) for item in globbed.table.items]
        assert names(other) == ["a/one.jpg", "a/two.jpg"]
    assert names(globbed) == ["one.jpg", "two.jpg"]
    assert names(list_images(f"{photos}/**/*.jpg")) == ["a/one.jpg", "a/two.jpg"]


def test_a_list_may_name_images_anywhere(photos, tmp_path):
    other = picture(tmp_path / "elsewhere" / "c.png")
    (photos / "list.txt").write_text(f"{other}\n{photos / 'b.png'}\n")
    assert names(list_images(photos / "list.txt")) == ["elsewhere/c.png", "photos/b.png"]
    (photos / "list.txt").write_text("b.png\n../elsewhere/c.png\n")
    assert names(list_images(photos / "list.txt")) == ["photos/b.png", "elsewhere/c.png"]


def test_boxes_of_a_manifest_are_kept(photos):
    (photos / "m.csv").write_text("path,left,top,right,bottom\nb.png,1,2,5,7\nb.png,,,,\n")
    found = list_images(photos / "m.csv")
    assert [found.table.box(0), found.table.box(1)] == [(1, 2, 5, 7), None]


def test_names_that_are_no_text_are_kept(tmp_path):
    folder = os.fsencode(tmp_path)
    picture(tmp_path / "fine.png")
    os.link(tmp_path / "fine.png", folder + b"/caf\xe9.png")
    assert [os.fsencode(path.name) for path in list_images(tmp_path).table.items] == [b"caf\xe9.png", b"fine.png"]


def test_other_images_have_another_digest(photos):
    before = list_images(photos).digest
    assert list_images(str(photos)).digest == before
    picture(photos / "c.png")
    assert list_images(photos).digest != before
    digits = list_images("digits")
    changed = digits.table.items.clone()
    changed[5, 0, 3, 3] += 1
    assert list_images(type(digits.table)("digits", changed, digits.table.labels, channels=1)).digest != digits.digest


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("empty", "holds no image, at any depth"),
        ("*.png", "no image matches .*quote it"),
        ("nowhere.txt", "there is no data set"),
        ("blank.txt", "lists no image"),
        ("stale.txt", "there is no file .*gone.png, nor are the next there"),
    ],
)
def test_what_names_no_image_is_refused(tmp_path, name, sentence):
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank.txt").write_text("\n")
    (tmp_path / "stale.txt").write_text("gone.png\n")
    with pytest.raises(ValueError, match=sentence):
        list_images(str(tmp_path / name))


def test_members_of_an_archive_keep_their_names():
    found = list_images(shared("eu_moths_196.zip"))
    assert isinstance(found.table.items[0], ZipMember) and names(found)[0] == found.table.items[0].name


def test_a_path_list_is_a_list_of_paths_in_little_room():
    texts = [f"folder/{number:06d}.jpg" for number in range(1000)]
    paths = PathList(texts)
    assert list(paths) == [Path(text) for text in texts] and paths[-1] == Path(texts[-1])
    assert paths[10:12] == [Path(text) for text in texts[10:12]]
    assert len(pickle.dumps(paths)) < 1000 * (len(texts[0]) + 9) + 500
    with pytest.raises(IndexError):
        paths[1000]
    assert torch.tensor(len(PathList([]))) == 0
