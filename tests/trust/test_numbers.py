"""Answers that are not numbers get no further, whoever asked."""

import csv
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import tokenstn
from tokenstn.apps.answer import describe, look
from tokenstn.cli import main
from tokenstn.data import fit, open_images, to_float
from tokenstn.inference.export_check import script
from tokenstn.models.aim import Views, enough_views
from tokenstn.models.preprocessing import preprocessing_of

from ..verbs.folders import digit_photos, few_digits, model_folder

FAST = ["--accelerator=cpu", "--progress=false"]


@pytest.fixture(scope="module")
def overflowing(tmp_path_factory) -> Path:
    """A model whose weights are finite, and the product of two of them is not."""
    folder = model_folder(tmp_path_factory.mktemp("models") / "overflowing")
    path = folder / "model.safetensors"
    weights = load_file(path)
    for name in ("norm", "head"):
        weights[f"backbone.classifier.{name}.weight"] *= 1e30
    save_file(weights, path)
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return digit_photos(tmp_path_factory.mktemp("data") / "photos", 3)


@pytest.mark.parametrize("verb", ["predict", "rectify"])
def test_the_image_is_listed_with_the_reason(overflowing, photos, tmp_path, verb):
    assert main([verb, str(overflowing), str(photos), f"--out={tmp_path / 'out'}", "--workers=0", *FAST]) == 0
    with (tmp_path / "out" / "rejected.csv").open() as file:
        rows = list(csv.reader(file))[1:]
    assert [Path(name).name for name, _ in rows] == ["0.png", "1.png", "2.png"]
    assert all("the model's answer is not a number" in reason for _, reason in rows)


def test_images_with_an_answer_keep_it(photos, tmp_path, monkeypatch):
    folder = model_folder(tmp_path / "model")
    whole = tokenstn.TokenSTN.forward

    def forward(self, images, **settings):
        found = whole(self, images, **settings)
        found.probabilities[images.sum((1, 2, 3)) == odd] = torch.nan
        return found

    model = tokenstn.load(folder)
    with torch.no_grad():
        p = preprocessing_of(model)
        pixels = fit(torch.as_tensor(open_images("digits").items[1]), p.size, p.resize, p.crop_share, p.interpolation)
        odd = to_float(pixels[None], p.mean, p.std).sum((1, 2, 3))
    monkeypatch.setattr(tokenstn.TokenSTN, "forward", forward)
    done = tokenstn.predict(model, photos, str(tmp_path / "out"), workers=0, accelerator="cpu", progress=False)
    assert done.summary is not None and (done.summary.predicted, done.summary.rejected) == (2, 1)


@pytest.mark.parametrize("verb", ["evaluate", "diagnose", "train"])
def test_every_other_verb_refuses_such_a_model(overflowing, tmp_path, capsys, verb):
    digits, out = few_digits(tmp_path), tmp_path / "out"
    words = {
        "evaluate": [str(overflowing), f"--data={digits}", f"--out={out}", "--limit=4", *FAST],
        "diagnose": [str(overflowing), str(digits), f"--out={out}", "--limit=4", *FAST],
        "train": [str(digits), f"--classifier={overflowing}", f"--out={out}", "--devices=1", *FAST],
    }[verb]
    assert main([verb, *words]) == 2
    said = capsys.readouterr().err
    assert "not a number" in said and "Traceback" not in said
    assert not out.exists()


def test_a_server_gives_no_such_answer(overflowing):
    model = tokenstn.load(overflowing)
    prepared = preprocessing_of(model)
    prediction = look(model, torch.zeros(1, 1, 16, 16, dtype=torch.uint8), prepared)
    with pytest.raises(ValueError, match="not a number"):
        describe(model, prediction, [(16, 16)], prepared)


def test_an_export_is_not_right_where_it_gives_no_number():
    gaps = script("verify").differences({"probabilities": [0.5, math.nan]}, {"probabilities": [0.5, math.nan]})
    assert gaps == {"probabilities": math.inf}


@torch.no_grad()
def test_a_belief_that_is_no_number_gives_an_answer_that_is_none():
    """As many views as hold the belief: of one that is not a number, the first."""
    broken, whole = torch.full((1, 3), torch.nan), torch.tensor([[0.6, 0.35, 0.05]])
    for weights, kept in ((broken, 1), (torch.cat((whole, broken)), 2)):
        views = enough_views(Views(torch.eye(3)[:2].expand(len(weights), 3, 2, 3), weights), 0.9)
        assert views.weights.shape == (len(weights), kept)
        assert views.weights[-1].isnan().all()
    assert torch.allclose(views.weights[0], torch.tensor([0.6, 0.35]) / 0.95)
