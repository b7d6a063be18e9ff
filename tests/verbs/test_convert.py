"""``tokenstn convert``: what it refuses to write, and to write over."""

import json

import pytest
import timm
import torch

import tokenstn
from tokenstn.cli import main

from .folders import model_folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoints") / "weights.pth"
    torch.save(timm.create_model("resnet10t", num_classes=3).state_dict(), path)
    return path


def convert(checkpoint, *options: str) -> int:
    return main(["convert", str(checkpoint), "--arch=resnet10t", *options])


def test_a_model_that_is_there_is_replaced_only_when_asked(checkpoint, tmp_path, capsys):
    there = model_folder(tmp_path / "model")
    before = (there / "model.safetensors").read_bytes()
    assert convert(checkpoint, f"--out={there}") == 2
    assert "holds a model: choose another --out, or replace it, --overwrite=true" in capsys.readouterr().err
    assert (there / "model.safetensors").read_bytes() == before
    assert convert(checkpoint, f"--out={there}", "--overwrite") == 0
    assert "resnet10t" in (there / "config.json").read_text()


def test_what_belonged_to_the_model_that_is_replaced_goes_with_it(checkpoint, tmp_path):
    there = model_folder(tmp_path / "model")
    for name in ("reference.json", "notes.txt"):
        (there / name).write_text("{}")
    assert convert(checkpoint, f"--out={there}", "--overwrite") == 0
    assert not (there / "reference.json").exists() and (there / "notes.txt").exists()


@pytest.mark.parametrize(
    ("option", "said"), [("--out", "is a file, and a model is a folder"), ("--classes", "no such file")]
)
def test_a_path_of_the_wrong_kind_gets_a_sentence(checkpoint, tmp_path, capsys, option, said):
    path = tmp_path / "given"
    if option == "--out":
        path.write_text("mine")
    assert convert(checkpoint, f"{option}={path}") == 2
    assert said in capsys.readouterr().err


def test_nor_is_one_beside_the_checkpoint(checkpoint, tmp_path, capsys):
    moved = tmp_path / "weights.pth"
    moved.write_bytes(checkpoint.read_bytes())
    assert convert(moved) == 0 and convert(moved) == 2
    assert f"{tmp_path / 'weights'} holds a model" in capsys.readouterr().err


def test_the_files_of_others_are_never_replaced(checkpoint, tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertModel"]}))
    assert convert(checkpoint, f"--out={tmp_path}", "--overwrite") == 2
    assert "holds config.json of something else" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("numbers", ["0.5", "0.5,0.5"])
def test_a_mean_for_other_channels_is_refused(checkpoint, tmp_path, capsys, numbers):
    out = tmp_path / "out"
    prepared = ["--input_size=64", f"--mean={numbers}", f"--std={numbers}"]
    assert convert(checkpoint, f"--out={out}", *prepared) == 2
    said = capsys.readouterr().err
    assert "this resnet10t takes images of 3 channels" in said and not out.exists()


def test_classes_that_are_not_utf_8_are_refused_by_name(checkpoint, tmp_path, capsys):
    classes = tmp_path / "classes.txt"
    classes.write_bytes("Äpfel\nBirnen\nKirschen\n".encode("latin-1"))
    assert convert(checkpoint, f"--classes={classes}", f"--out={tmp_path / 'out'}") == 2
    assert f"--classes {classes} is not in UTF-8" in capsys.readouterr().err
    classes.write_text("Äpfel\nBirnen\nKirschen\n", encoding="utf-8-sig")  # as some editors write it
    assert convert(checkpoint, f"--classes={classes}", f"--out={tmp_path / 'out'}") == 0
    assert tokenstn.load(tmp_path / "out").classes == ("Äpfel", "Birnen", "Kirschen")
