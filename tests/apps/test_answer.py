"""Answers for JSON: in degrees and in pixels of the photo, whatever the network's size."""

import json
import math

import pytest
import torch

from tokenstn.apps.answer import describe, look, prepare
from tokenstn.geometry import Pose, as_primitives
from tokenstn.models import Prediction, Preprocessing, TokenSTN
from tokenstn.models.preprocessing import preprocessing_of
from tokenstn.posteriors import Views


class Logits(torch.nn.Module):
    """A classifier that says the same about every image."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor(logits))

    def forward(self, images):
        return self.logits.expand(len(images), -1) + 0 * images.mean((1, 2, 3)).unsqueeze(1)


PREPROCESSING = Preprocessing((32, 32), (0.5,) * 3, (0.5,) * 3)


def bare(logits, **options):
    return TokenSTN(
        Logits(logits), primitives=(), input_size=(32, 32), preprocessing=PREPROCESSING, **options
    ).eval()  # fmt: skip


def test_a_pose_is_told_in_degrees_and_pixels_of_the_photo():
    model = bare([0.0, 1.0], classes=("a", "b"))
    model.primitives = as_primitives(("rotation", "scale", "translation"))
    pose = Pose.of(rotation=torch.tensor([math.pi / 6]), scale=0.8, translation=torch.tensor([[0.1, -0.2]]))
    spread = {"rotation": torch.tensor([0.1]), "scale": torch.tensor([0.05]), "translation": torch.tensor([0.02])}
    prediction = Prediction(
        probabilities=torch.tensor([[0.25, 0.75]]), pose=pose, spread=spread,
        entropy={name: torch.tensor([0.5]) for name in spread},
        views=Views(pose.matrix.unsqueeze(1).repeat(1, 3, 1, 1), torch.tensor([[0.6, 0.4, 0.0]])),
        disagreement=torch.tensor([0.125]),
    )  # fmt: skip
    answer = describe(model, prediction, [(300, 375)], PREPROCESSING)[0]
    assert answer["prediction"] == "b" and answer["probability"] == 0.75
    assert [item["class"] for item in answer["top"]] == ["b", "a"]
    assert answer["rotation_deg"] == pytest.approx(30, abs=1e-4)
    assert answer["rotation_spread_deg"] == pytest.approx(math.degrees(0.1), abs=1e-4)
    assert answer["translation_px"] == pytest.approx([15, -30], abs=1e-3)  # of a shorter side of 300
    assert answer["translation_spread_px"] == pytest.approx(3, abs=0.05)
    assert answer["scale"] == pytest.approx(0.8) and answer["views"] == 2 and answer["photo_px"] == [375, 300]
    assert answer["disagreement"] == 0.125
    assert answer["shear"] is None and answer["mirrored"] is None  # not estimated
    assert answer["pose_ambiguous"] is None and answer["entropy"]["scale"] == 0.5
    assert json.loads(json.dumps(answer)) == answer


def test_several_labels_are_a_list():
    model = bare([2.0, -2.0, 3.0], classes=("cat", "dog", "owl"), multi_label=True)
    photo = prepare(torch.zeros(3, 50, 70, dtype=torch.uint8), PREPROCESSING)
    answer = describe(model, look(model, photo.unsqueeze(0), PREPROCESSING), [(50, 70)], PREPROCESSING)[0]
    assert answer["prediction"] == ["cat", "owl"] and answer["top"][0]["class"] == "owl"
    assert answer["rotation_deg"] is None and answer["estimated"] == []


def test_a_model_that_nobody_can_prepare_images_for_is_refused():
    model = TokenSTN(Logits([0.0, 1.0]), primitives=(), input_size=(32, 32))
    with pytest.raises(ValueError, match="does not say how its images are prepared"):
        preprocessing_of(model, "my-model")
