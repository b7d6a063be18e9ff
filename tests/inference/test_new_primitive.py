"""A primitive that no table of words knows: a model with it is exported, kept, asked in bulk, served and shown."""

import csv
import json
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import tokenstn
from tokenstn import TokenSTN
from tokenstn.apps.schema import PredictAnswer
from tokenstn.geometry import PRIMITIVES, Pose, Primitive
from tokenstn.inference.export import export_model
from tokenstn.inference.rectify_job import COLUMNS
from tokenstn.verbs.predict import predict
from tokenstn.verbs.rectify import rectify

from ..models.classifiers import PlainCNN, shake
from .known_pose import known_model
from .scenes import photo

QUIET = {"accelerator": "cpu", "progress": False, "workers": 0}
FOUND = 1.2


@dataclass(frozen=True)
class Stretch(Primitive):
    """sy / sx, as in the contributor's guide."""

    bound: float = 0.3

    name = "stretch"
    unit = "×"
    identity = 1.0
    largest_bound = 0.9

    @property
    def range(self):
        return 1 - self.bound, 1 + self.bound

    def squash(self, u):
        return 1 + super().squash(u)

    def unsquash(self, value):
        return super().unsquash((value - 1).clamp(-self.bound, self.bound))


@pytest.fixture
def model(monkeypatch) -> TokenSTN:
    """One that finds every object stretched; what it is called is known from here on, and no longer than the test."""
    monkeypatch.setitem(PRIMITIVES, Stretch.name, Stretch)
    return known_model(Pose.of(stretch=torch.tensor(FOUND)), ("stretch",), size=16, classes=list("abcde"))


@pytest.fixture
def photos(tmp_path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    Image.fromarray(photo(40, 48)).save(folder / "a.png")
    return folder


def test_a_bundle_says_what_it_is_by_its_range(model, tmp_path):
    network = shake(PlainCNN())
    model = TokenSTN(network, (Stretch(),), shared="stem", input_size=(16, 16), preprocessing=model.preprocessing)
    shake(model.localizer, 0.5)
    done = export_model(model.eval(), tmp_path / "bundle", formats=("pt2",), views=1)
    outputs = json.loads((done.folder / "bundle.json").read_text())["outputs"]
    assert outputs["stretch"]["is"] == "of the object, from 0.7 to 1.3 ×"
    assert "stretch" in outputs["entropy_stretch"]["is"] and "stretch" in outputs["spread_stretch"]["is"]
    assert done.differences["pt2"]["stretch"] < 1e-4  # to what PyTorch says, on the golden images


def test_predictions_have_a_column_for_it(model, photos, tmp_path):
    predict(model, photos, str(tmp_path / "out"), **QUIET)
    row = pd.read_parquet(tmp_path / "out" / "predictions").iloc[0]
    assert row["stretch"] == pytest.approx(FOUND, abs=1e-5)
    assert row["stretch_spread"] == row["entropy_stretch"] == 0.0


def test_photos_are_corrected_by_it_and_the_table_says_so(model, photos, tmp_path):
    rectify(model, photos, str(tmp_path / "out"), sheet=True, **QUIET)
    with (tmp_path / "out" / "corrections.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["corrected"] == "yes" and float(row["stretch"]) == pytest.approx(FOUND, abs=1e-5)
    assert float(row["m11"]) == pytest.approx(FOUND, abs=1e-5) and float(row["m00"]) == pytest.approx(1)
    before, after = (np.asarray(Image.open(place / "a.png")) for place in (photos, tmp_path / "out" / "images"))
    assert before.shape == after.shape and (before != after).any()


def test_every_part_of_a_pose_is_in_the_table_of_corrections():
    called = {"rotation": "rotation_deg", "translation": "translation_x_px", "reflection": "mirrored"}
    assert {called.get(field.name, field.name) for field in fields(Pose)} <= set(COLUMNS)


def test_a_saved_model_is_loaded_again(model, tmp_path):
    fresh = TokenSTN(model.classifier, (Stretch(0.2),), preprocessing=model.preprocessing)
    fresh.save_pretrained(tmp_path)
    assert tokenstn.load(tmp_path).primitives == (Stretch(0.2),)
    assert "| stretch | 0.80 to 1.20 |" in (tmp_path / "README.md").read_text()


def test_a_server_answers_and_counts_it_and_the_page_shows_it(model):
    pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
    from tokenstn.apps.metrics import Metrics
    from tokenstn.apps.show import parts
    from tokenstn.apps.sight import look_at

    sight = look_at(model, torch.from_numpy(photo(40, 48)).movedim(-1, 0))
    assert PredictAnswer(**sight.answer).model_dump()["stretch"] == pytest.approx(FOUND, abs=1e-5)
    assert sight.answer["scale"] is None and sight.answer["entropy"] == {"stretch": 0.0}
    assert "stretch" in parts(sight, None)[1] and "1.20" in parts(sight, None)[1]
    metrics = Metrics(model.classes, ("stretch",), None)
    metrics.answered(sight.answer)
    page = metrics.page().decode()
    assert 'tokenstn_entropy_count{primitive="stretch"} 1.0' in page and "tokenstn_scale" not in page
