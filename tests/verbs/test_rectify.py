"""``tokenstn rectify`` as a newcomer meets it: what it says, what it leaves, and sentences for mistakes."""

import pytest
import torch
from PIL import Image

import tokenstn
from tokenstn.cli import main
from tokenstn.data import open_images, read_image

from ..models.flags import some_thresholds
from .folders import model_folder

FAST = ["--accelerator=cpu", "--progress=false", "--workers=0"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "photos"
    (folder / "inner").mkdir(parents=True)
    for number in range(4):
        Image.fromarray(open_images("digits").items[number, 0].numpy()).save(folder / "inner" / f"{number}.png")
    (folder / "broken.jpg").write_bytes(b"not an image")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "relative"
    return model_folder(folder, ("rotation",), thresholds=some_thresholds(pose_threshold=None), poses="relative")


def test_it_says_what_it_did_and_leaves_images_and_a_table(model, photos, tmp_path, capsys):
    out = tmp_path / "out"
    assert (
        main(["rectify", str(model), str(photos), "--out", str(out), "--only_confident=true", "--sheet=true", *FAST])
        == 0
    )
    said = capsys.readouterr().out
    assert "0 of 5 corrected, to be consistent with each other, not upright: poses are relative" in said
    assert "4 left as they are: not calibrated: every image is flagged" in said and "1 could not be read" in said
    assert "pose_ambiguous: not calibrated: every image is flagged" in said
    assert {path.name for path in out.iterdir()} == {
        "images", "corrections.csv", "rejected.csv", "rectify.json", "sheet.png", ".corrections"
    }  # fmt: skip
    for number in range(4):
        name = f"inner/{number}.png"
        assert (out / "images" / name).read_bytes() == (photos / name).read_bytes()


def test_images_that_are_no_files_are_written_as_png(model, tmp_path):
    table = open_images("digits")
    few = table.subset(torch.arange(5))
    tokenstn.rectify(str(model), few, str(tmp_path), accelerator="cpu", progress=False)
    names = sorted(path.name for path in (tmp_path / "images").iterdir())
    assert names == [f"{row:06d}.png" for row in range(5)]
    before, after = table.items[3], read_image(tmp_path / "images" / "000003.png", channels=1)
    assert before.shape == after.shape


@pytest.mark.parametrize(
    ("primitives", "arguments", "sentence"),
    [
        ((), [], "has no rectifier, so that there is nothing to correct"),
        (("rotation",), ["--only_confident=true"], "has no thresholds for its poses"),
        (("rotation",), ["--annotations=none.json"], "there is no file none.json"),
        (("rotation",), ["--out={photos}/inner/out"], "lies inside"),
    ],
)
def test_a_mistake_gets_a_sentence_and_leaves_nothing_behind(photos, tmp_path, capsys, primitives, arguments, sentence):
    other, out = model_folder(tmp_path / "model", primitives), tmp_path / "out"
    filled = ["--out", str(out), *(argument.format(photos=photos) for argument in arguments)]
    assert main(["rectify", str(other), str(photos), *filled, *FAST]) == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said
    assert not out.exists() and not (photos / "inner" / "out").exists()


def test_boxes_and_annotations_do_not_go_together(model, photos, tmp_path, capsys):
    (photos.parent / "m.csv").write_text("path,left,top,right,bottom\nphotos/inner/0.png,1,1,9,9\n")
    (tmp_path / "c.json").write_text('{"images": [], "annotations": []}')
    call = ["rectify", str(model), str(photos.parent / "m.csv"), "--out", str(tmp_path / "out")]
    assert main([*call, f"--annotations={tmp_path / 'c.json'}", *FAST]) == 2
    assert "the manifest cuts boxes out of them" in capsys.readouterr().err
