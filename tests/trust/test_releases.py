"""A model that a release wrote loads for ever, and says what it said then."""

import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import tokenstn

from .write_release import RELEASES, answers

PACKED = sorted(RELEASES.glob("*/*.zip"))
TOLERANCE = 1e-4  # of probabilities and poses: libraries may add in another order


def unpacked(archive: Path, folder: Path) -> Path:
    """The model folder, or the exported file, that an archive holds."""
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    return folder / "model.onnx" if archive.stem == "exported" else folder


def test_the_first_release_is_kept():
    assert {path.stem for path in (RELEASES / "0.1.0").glob("*.zip")} == {
        "rectifier", "transferred", "bare", "exported",
    }  # fmt: skip


@pytest.mark.parametrize("archive", PACKED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_a_release_wrote_still_answers_as_it_did(archive, tmp_path):
    if archive.stem == "exported":
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    expected = load_file(archive.with_suffix(".safetensors"))
    images = expected.pop("images")
    calls = [name.split()[0] for name in expected if name.endswith(" probabilities")]
    model = tokenstn.load(unpacked(archive, tmp_path))
    found = answers(model, images, tuple(int(call) if call.isdigit() else call for call in calls))
    assert expected.keys() <= found.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, rtol=TOLERANCE, atol=TOLERANCE, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("archive", PACKED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_answers_kept_could_go_wrong(archive):
    """They differ from image to image, so that a model that says nothing would be found out."""
    expected = load_file(archive.with_suffix(".safetensors"))
    shares = next(value for name, value in expected.items() if name.endswith("probabilities"))
    assert (shares[:, None] - shares[None]).abs().sum(-1)[~torch.eye(len(shares), dtype=torch.bool)].min() > 0.01


def test_names_and_settings_of_the_first_release_come_back(tmp_path):
    model = tokenstn.load(unpacked(RELEASES / "0.1.0" / "rectifier.zip", tmp_path))
    assert model.classes == ("weiß", "猫", "a b", "<script>")
    assert [primitive.name for primitive in model.primitives] == [
        "rotation", "scale", "shear", "translation", "reflection",
    ]  # fmt: skip
    assert model.preprocessing is not None and model.preprocessing.resize == "pad"
    assert model.thresholds is not None and model.poses == "absolute"
