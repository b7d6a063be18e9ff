"""The two flags are raised as their thresholds say, independently of each other, and only where these hold."""

import dataclasses
import json
import re
from importlib import import_module
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tokenstn import Prediction, TokenSTN
from tokenstn.geometry import Rotation
from tokenstn.models import AutoViews, Thresholds
from tokenstn.models.call_settings import CallSettings
from tokenstn.models.combination import Combination, named_uncertainties
from tokenstn.models.thresholds import PoseThreshold
from tokenstn.posteriors import Circular
from tokenstn.posteriors.circular import bin_angles

from .classifiers import ALL, PlainCNN, shake
from .flags import NAMES, PROMISE, at_medians, log_odds_by_hand, some_thresholds


def make(**settings) -> TokenSTN:
    torch.manual_seed(0)
    model = TokenSTN(shake(PlainCNN()), **({"primitives": ALL, "shared": "body", "input_size": (32, 32)} | settings))
    if model.localizer is not None:
        shake(model.localizer, 1.0)
    return model.eval()


@pytest.fixture
def images() -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(8, 3, 32, 32, generator=generator) * torch.logspace(-1, 1, 8)[:, None, None, None]


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("views", [1, 3, "auto"])
@torch.no_grad()
def test_the_flags_are_those_of_an_independent_computation(images, views, multi_label):
    model = make(multi_label=multi_label)
    p = model(images, views=views)
    assert p.pose_ambiguous is None and p.class_uncertain is None, "without thresholds"
    model.thresholds = limits = at_medians(p, views, multi_label)
    flagged = model(images, views=views)
    uncertain = log_odds_by_hand(p, multi_label) > limits.of_class.threshold
    ambiguous = p.entropy["rotation"].numpy() > limits.of_pose.threshold
    assert flagged.class_uncertain.tolist() == uncertain.tolist() and uncertain.sum() == 4
    assert flagged.pose_ambiguous.tolist() == ambiguous.tolist() and ambiguous.sum() == 4


@torch.no_grad()
def test_no_threshold_that_meets_the_target_flags_everything_and_each_flag_is_its_own(images):
    model = make()
    model.thresholds = some_thresholds(2, class_threshold=None, pose_threshold=2.0)
    p = model(images, views=2)
    assert p.class_uncertain.all() and not p.pose_ambiguous.any()
    model.thresholds = dataclasses.replace(some_thresholds(2, pose_threshold=None), of_class=None)
    p = model(images, views=2)
    assert p.class_uncertain is None and p.pose_ambiguous.all()


@torch.no_grad()
def test_a_pose_can_be_ambiguous_without_the_class_being_uncertain(images):
    """Beliefs that are sharp or flat about images whose class is clear or not: all four cases."""
    model = make(primitives=("rotation",))
    model.classifier.head.weight.mul_(30)
    sharp = torch.tensor([300.0, 0.1] * 4)[:, None]
    belief = {"rotation": Circular(Rotation(), sharp * torch.cos(bin_angles()).float())}
    doubt = 1 - model.classify(images, belief, 2).probabilities.amax(-1)
    limit = doubt.median().item() + 1e-4
    identity = Combination(("confidence",), ("identity",), (0.0,), (1.0,), (1.0,), 0.0)
    limits = some_thresholds(2, pose_threshold=0.9)
    of_class = dataclasses.replace(limits.of_class, combination=identity, threshold=limit)
    model.thresholds = dataclasses.replace(limits, of_class=of_class)
    p = model.classify(images, belief, 2)
    assert p.pose_ambiguous.tolist() == [False, True] * 4
    assert p.class_uncertain.tolist() == (doubt > limit).tolist()
    assert {(a, b) for a, b in zip(p.pose_ambiguous.tolist(), p.class_uncertain.tolist(), strict=True)} >= {
        (True, False),
        (False, True),
    }


def test_without_a_rotation_the_largest_entropy_of_any_primitive_counts():
    limit = PoseThreshold(("scale", "shear"), 0.5, PROMISE)
    entropy = {"scale": torch.tensor([0.4, 0.6, 0.1]), "shear": torch.tensor([0.4, 0.1, 0.51])}
    assert limit(entropy).tolist() == [False, True, True]


def test_what_is_not_a_number_is_flagged():
    limits = some_thresholds(names=("confidence",))
    assert limits.class_uncertain({"confidence": torch.tensor([torch.nan, 0.0])}).tolist() == [True, False]
    assert limits.pose_ambiguous({"rotation": torch.tensor([torch.nan, 0.0])}).tolist() == [True, False]


# --- the calls they hold for


OTHERS = [
    ({"views": 4}, {}, "views 4 .calibrated: 2."),
    ({"views": "auto"}, {}, "views auto .calibrated: 2."),
    ({"views": 2, "sampling": "random"}, {}, "sampling random .calibrated: probable."),
    ({"views": 2}, {"precision": "bfloat16"}, "precision bfloat16 .calibrated: float32."),
    ({"views": 2}, {"execution": "onnx"}, "execution onnx .calibrated: torch."),
]


@pytest.mark.parametrize(("call", "circumstances", "sentence"), OTHERS, ids=str)
def test_why_not_names_what_differs(call, circumstances, sentence):
    limits, model = some_thresholds(2), make()
    assert limits.holds_for(model.call_settings(2)) and limits.why_not(model.call_settings(2)) is None
    other = model.call_settings(**call, **circumstances)
    assert not limits.holds_for(other)
    reason = limits.why_not(other)
    assert reason is not None and re.search(sentence, reason)
    assert reason.count("calibrated:") == 1 and "calibrate it again" in reason


def test_auto_holds_for_the_same_auto_only():
    limits = some_thresholds("auto")
    assert limits.holds_for(make().call_settings()) and not limits.holds_for(make().call_settings(8))
    reason = limits.why_not(make(auto=AutoViews(mass=0.5)).call_settings())
    assert reason is not None and f"{AutoViews(mass=0.5)} (calibrated: auto, {AutoViews()})" in reason


@torch.no_grad()
def test_a_call_under_other_settings_gets_no_flags(images):
    model = make()
    model.thresholds = some_thresholds(2)

    def flags(p: Prediction) -> set:
        return {p.pose_ambiguous is None, p.class_uncertain is None}

    assert flags(model(images, views=2)) == {False}
    others = [model(images), model(images, views=3), model(images, views=2, sampling="random")]
    others.append(model.classify(images, {}, 2))  # the bare classifier's answer
    with torch.autocast("cpu", dtype=torch.bfloat16):
        others.append(model(images, views=2))
    others.append(model.train()(images, views=2))
    others.append(model.eval().double()(images.double(), views=2))
    for p in others:
        assert flags(p) == {True}
    model.thresholds = some_thresholds(2, precision="bfloat16")
    assert flags(model.bfloat16()(images.bfloat16(), views=2)) == {False}
    model.thresholds = some_thresholds("auto")
    model.float()
    assert flags(model(images)) == {False}
    model.auto = AutoViews(mass=0.5)
    assert flags(model(images)) == {True}


@torch.no_grad()
def test_a_classifier_without_a_rectifier_has_the_class_flag_whatever_the_views(images):
    model = make(primitives=())
    model.thresholds = dataclasses.replace(some_thresholds(None, class_threshold=None), of_pose=None)
    for views in (None, 1, 5):
        p = model(images, views=views)
        assert p.class_uncertain.all() and p.pose_ambiguous is None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(images).class_uncertain is None


def test_thresholds_of_another_model_are_refused_when_they_are_set():
    with pytest.raises(ValueError, match=r"look at rotation with views='auto', and this model estimates scale"):
        make(primitives=("scale",), thresholds=some_thresholds())
    model = make(primitives=())
    with pytest.raises(ValueError, match="this model estimates no pose"):
        model.thresholds = dataclasses.replace(some_thresholds(), of_pose=None)


# --- traced; that compiled and exported models raise the same flags is tested in test_traced


@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_a_model_exported_with_other_views_raises_no_flags(images):
    model = make(primitives=("rotation",), thresholds=some_thresholds(2))
    p = torch.export.export(model, (images,), {"views": 1}).module()(images, views=1)
    assert p.class_uncertain is None and p.pose_ambiguous is None


class Outputs(torch.nn.Module):
    """What an exported file would have: the tensors of a prediction."""

    def __init__(self, model: TokenSTN) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        p = self.model(images, views=2)
        return tuple(t for t in (p.probabilities, p.class_uncertain, p.pose_ambiguous) if t is not None)


@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_an_onnx_file_has_flags_only_where_they_were_calibrated_for_onnx(images, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model = make(primitives=("rotation", "scale"))
    expected = model(images, views=2)
    found = {}
    for execution in ("torch", "onnx"):
        model.thresholds = at_medians(expected, 2, execution=execution)
        path = str(tmp_path / f"{execution}.onnx")
        torch.onnx.export(Outputs(model).eval(), (images,), path, dynamo=True, verbose=False)
        session = runtime.InferenceSession(path)
        found[execution] = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    assert len(found["torch"]) == 1 and len(found["onnx"]) == 3
    uncertain = log_odds_by_hand(expected) > model.thresholds.of_class.threshold
    assert found["onnx"][1].tolist() == uncertain.tolist()
    assert found["onnx"][2].tolist() == (expected.entropy["rotation"] > model.thresholds.of_pose.threshold).tolist()


# --- as values


def test_json_brings_them_back():
    for limits in (
        some_thresholds(names=NAMES),
        some_thresholds(4, None, None),
        dataclasses.replace(some_thresholds(None), of_pose=None),
    ):
        text = json.dumps(limits.to_json(), allow_nan=False)
        assert Thresholds.from_json(json.loads(text)) == limits


@pytest.mark.parametrize("value", [np.float32(0.5), torch.tensor(0.5), "0.5", float("nan")])
def test_a_threshold_that_json_cannot_hold_is_refused(value):
    with pytest.raises(ValueError, match="a finite number is expected"):
        some_thresholds(class_threshold=value)


def test_the_promise_is_said_in_plain_words():
    of_class, of_pose = some_thresholds(pose_threshold=None).sentences
    assert of_class == (
        "class_uncertain: accepts 80 % of turned images; at most 5 % of the accepted answers are wrong, with 95 % "
        "confidence, for images like these 100"
    )
    assert of_pose.startswith("pose_ambiguous: not calibrated: every image is flagged, because no threshold keeps")
    assert "on 100 calibration images, which are too few or fail too often" in of_pose
    neither = Thresholds(None, None, CallSettings("auto", AutoViews())).sentences
    assert all("not given" in sentence for sentence in neither)


def test_the_way_to_a_larger_risk_is_named_and_exists():
    of_pose = some_thresholds(pose_threshold=None).sentences[1]
    module, _, function = re.search(r"tokenstn\.[\w.]+", of_pose)[0].rpartition(".")
    assert {"target_risk", "pose_risk"} <= set(signature(getattr(import_module(module), function)).parameters)
    tutorial = Path(__file__).parents[2] / re.search(r"docs/[\w/]+\.md", of_pose)[0]
    assert f"from {module} import {function}" in tutorial.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("images", "reason"),
    [(58, "on only 58 calibration images"), (59, "on 59 calibration images, which are too few or fail too often")],
)
def test_a_flag_without_a_threshold_says_why_it_is_raised_on_every_image(images, reason):
    """59 right answers are the fewest that can show a risk of 5 % with 95 % confidence."""
    limits = some_thresholds(class_threshold=None)
    nothing = dataclasses.replace(PROMISE, images=images, accepted=0, bound=1.0)
    limits = dataclasses.replace(limits, of_class=dataclasses.replace(limits.of_class, guarantee=nothing))
    assert limits.uncalibrated == {
        "class_uncertain": "not calibrated: every image is flagged, because no threshold keeps the risk below 5 % "
        + reason
    }
    assert some_thresholds().uncalibrated == {}


def test_the_names_are_those_of_the_uncertainties():
    one = torch.zeros(1)
    assert set(named_uncertainties(one, one, one, {"rotation": one})) == set(NAMES) - {"entropy_scale"}
    assert set(named_uncertainties(one, one, None, {})) == {"confidence", "predictive_entropy"}
