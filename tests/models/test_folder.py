"""A model folder is enough to rebuild the model; a broken one is refused with a sentence that names the file."""

import copy
import dataclasses
import json
import math
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torchvision
from safetensors.torch import load as from_bytes
from safetensors.torch import save_file
from torch import nn

import tokenstn
from tokenstn import Preprocessing, TokenSTN
from tokenstn.geometry import OneSidedScale, Reflection, Rotation, Scale, Shear, Translation
from tokenstn.models import AutoViews

from .classifiers import ALL, PlainCNN, shake, small_vit
from .flags import some_thresholds

SETTINGS = Preprocessing((32, 32), (0.1, 0.2, 0.3), (0.5, 0.6, 0.7), "pad", crop_share=0.9, interpolation="bilinear")


def images(channels: int = 3, size: int = 32) -> torch.Tensor:
    return torch.rand(3, channels, size, size, generator=torch.Generator().manual_seed(0))


def model_of(classifier: nn.Module | None = None, **settings) -> TokenSTN:
    return shake(TokenSTN(classifier or small_vit(), **settings)).eval()


def assert_same_predictions(found: TokenSTN, expected: TokenSTN, batch: torch.Tensor) -> None:
    for views in (1, 3, "auto"):
        with torch.no_grad():
            a, b = found(batch, views=views), expected(batch, views=views)
        torch.testing.assert_close(a.probabilities, b.probabilities, rtol=0, atol=0)
        torch.testing.assert_close(a.pose.matrix, b.pose.matrix, rtol=0, atol=0)
        torch.testing.assert_close(a.views.weights, b.views.weights, rtol=0, atol=0)
        torch.testing.assert_close(a.entropy, b.entropy, rtol=0, atol=0)
        for flag in ("pose_ambiguous", "class_uncertain"):
            assert str(getattr(a, flag)) == str(getattr(b, flag))


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """A folder with everything in it, to be copied and broken."""
    folder = tmp_path_factory.mktemp("good")
    model_of(
        primitives=ALL,
        preprocessing=SETTINGS,
        classes=list("abcde"),
        thresholds=some_thresholds(),
        localization_size=(16, 16),
    ).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(good, tmp_path) -> Path:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((good / name).read_bytes())
    return tmp_path


def change(folder: Path, **values) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def change_inside(folder: Path, key: str, **values) -> None:
    change(folder, **{key: {**json.loads((folder / "config.json").read_text())[key], **values}})


# --- there and back


@pytest.mark.parametrize(
    "settings",
    [
        {"primitives": ()},
        {"primitives": ALL},
        {"primitives": [Rotation(0.5), Scale(0.6), Shear(0.2), Translation(0.3), Reflection()]},
        {"primitives": [OneSidedScale(0.7)]},
        {"primitives": [Rotation(np.deg2rad(30))]},
        {"posterior": "circular"},
        {"posterior": "gaussian"},
        {"posterior": "student", "primitives": ("rotation", "scale")},
        {"posterior": "point"},
        {"shared": 1},
        {"localization_size": 24},
        {"localization_size": (24, 16)},
        {"multi_label": True},
        {"poses": "relative"},
        {"auto": AutoViews(mass=0.5, most=3)},
        {"thresholds": some_thresholds()},
        {"thresholds": some_thresholds(views=3, class_threshold=None, pose_threshold=None)},
        {"thresholds": dataclasses.replace(some_thresholds(), of_class=None)},
        {"thresholds": dataclasses.replace(some_thresholds(views=None), of_pose=None), "primitives": ()},
        {"classes": ["weiß", "猫", "a b", "", "x"]},
        {"preprocessing": SETTINGS},
    ],
    ids=str,
)
def test_a_model_comes_back_as_it_was(settings, tmp_path):
    model = model_of(**settings)
    model.save_pretrained(tmp_path)
    loaded = tokenstn.load(tmp_path)
    assert_same_predictions(loaded, model, images())
    for kept in (
        "primitives",
        "posterior",
        "localization_size",
        "multi_label",
        "auto",
        "poses",
        "thresholds",
        "classes",
    ):
        assert getattr(loaded, kept) == getattr(model, kept)
    assert loaded.preprocessing == model.preprocessing
    assert loaded.backbone.input_size == model.backbone.input_size
    assert not loaded.training


CLASSIFIERS = {
    "timm ResNet": (lambda: timm.create_model("test_resnet", num_classes=3, in_chans=1), 2),
    "timm ResNet by the name of a layer": (lambda: timm.create_model("test_resnet", num_classes=3), "layer1"),
    "timm ViT": (lambda: small_vit(in_chans=1, num_classes=3), 2),
    "torchvision ResNet": (lambda: torchvision.models.resnet18(num_classes=3), "layer1"),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_of_the_two_libraries_need_no_arguments(name, tmp_path):
    make, shared = CLASSIFIERS[name]
    model = model_of(make(), shared=shared, input_size=(32, 32))
    model.save_pretrained(tmp_path)
    loaded = tokenstn.load(tmp_path)
    assert type(loaded.classifier) is type(model.classifier)
    assert_same_predictions(loaded, model, images(channels=model.backbone.channels))


def test_a_transferred_rectifier_comes_back_with_its_own_prefix(tmp_path):
    donor = model_of(small_vit(in_chans=3, depth=3), primitives=("rotation",), shared=1, localization_size=24)
    model = model_of(
        timm.create_model("test_resnet", num_classes=4), rectifier=donor, input_size=(48, 48), preprocessing=SETTINGS
    )
    model.save_pretrained(tmp_path / "once")
    loaded = tokenstn.load(tmp_path / "once")
    assert_same_predictions(loaded, model, images(size=48))
    loaded.save_pretrained(tmp_path / "twice")
    assert_same_predictions(tokenstn.load(tmp_path / "twice"), model, images(size=48))


def test_a_loaded_rectifier_serves_another_classifier(folder):
    loaded = tokenstn.load(folder)
    other = TokenSTN(PlainCNN(), rectifier=loaded, input_size=(32, 32), preprocessing=SETTINGS).eval()
    torch.testing.assert_close(other(images(), views=1).pose.matrix, loaded(images(), views=1).pose.matrix)


def test_a_rectifier_that_reads_through_a_class_of_ones_own_is_not_saved(tmp_path):
    donor = TokenSTN(PlainCNN(), shared="body", input_size=(32, 32))
    model = TokenSTN(small_vit(), rectifier=donor)
    with pytest.raises(ValueError, match="PlainCNN, which cannot be rebuilt"):
        model.save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_holds_two_files_that_others_may_read_and_no_pickle(folder, tmp_path):
    model_of().save_pretrained(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["config.json", "model.safetensors"]
    modes = {(tmp_path / "new" / name).stat().st_mode for name in ("config.json", "model.safetensors")}
    assert len(modes) == 1


def test_saving_leaves_the_model_as_it_was(tmp_path):
    model = model_of().train()
    model.classifier.blocks[0].eval()
    model.classifier.head.requires_grad_(False)
    before = copy.deepcopy(model)
    state = torch.get_rng_state()
    model.save_pretrained(tmp_path)
    assert [module.training for module in model.modules()] == [module.training for module in before.modules()]
    assert [p.requires_grad for p in model.parameters()] == [p.requires_grad for p in before.parameters()]
    assert torch.equal(torch.get_rng_state(), state)
    torch.testing.assert_close(model.state_dict(), before.state_dict(), rtol=0, atol=0)


def test_saving_again_replaces_the_folder(folder):
    model = model_of(small_vit(num_classes=2), primitives=("rotation",))
    model.save_pretrained(folder)
    assert_same_predictions(tokenstn.load(folder), model, images())


@pytest.mark.parametrize("failing", [1, 2])
def test_an_interrupted_save_never_pairs_a_config_with_other_weights(folder, monkeypatch, failing):
    calls = []
    replace = os.replace

    def interrupted(source, target):
        calls.append(target)
        if len(calls) == failing:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model_of(primitives=ALL, classes=list("vwxyz")).save_pretrained(folder)
    with pytest.raises(FileNotFoundError, match=r"no config\.json"):
        tokenstn.load(folder)


def test_weights_that_share_memory_are_saved(tmp_path):
    classifier = small_vit()
    classifier.blocks[1].mlp.fc1.weight = classifier.blocks[0].mlp.fc1.weight
    model = model_of(classifier)
    model.save_pretrained(tmp_path)
    assert_same_predictions(tokenstn.load(tmp_path), model, images())


# --- classifiers of one's own


def altered() -> nn.Module:
    classifier = small_vit()
    classifier.blocks[0].mlp.act = nn.ReLU()
    return classifier


@pytest.mark.parametrize(("make", "shared"), [(PlainCNN, "body"), (altered, 2)])
def test_any_other_classifier_has_to_be_given_again(make, shared, tmp_path):
    model = model_of(make(), shared=shared, input_size=(32, 32))
    kind = type(model.classifier).__name__
    with pytest.warns(UserWarning, match=rf"{kind} cannot be rebuilt.*load\(folder, classifier=…\)") as caught:
        model.save_pretrained(tmp_path)
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match=rf"{kind}.*load\(folder, classifier=…\)"):
        tokenstn.load(tmp_path)
    assert_same_predictions(tokenstn.load(tmp_path, classifier=make()), model, images())


def test_a_classifier_that_does_not_fit_the_folder_is_refused(folder):
    with pytest.raises(ValueError, match=r"do not fit.*2 of another shape: \S*head.weight"):
        tokenstn.load(folder, classifier=small_vit(num_classes=7))


# --- what cannot be saved


class Wobble(Rotation):
    """A primitive that no folder knows."""


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"primitives": [Wobble()]}, "Wobble"),
        ({"classes": [0, 1, 2, 3, 4]}, "classes"),
    ],
)
def test_what_would_not_come_back_is_not_written(settings, reason, tmp_path):
    with pytest.raises(ValueError, match=f"cannot be saved.*{reason}|{reason}.*cannot be saved"):
        model_of(**settings).save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()


# --- broken folders


def test_a_folder_without_config_is_not_a_model_folder(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(FileNotFoundError, match=r"not a model folder: it has no config\.json"):
            tokenstn.load(folder)


@pytest.mark.parametrize("text", ["", "{", "{'format': 1}", "\xff\xfe", '{"format": 1'])
def test_broken_json_is_refused(folder, text):
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"config\.json is not valid JSON"):
        tokenstn.load(folder)


@pytest.mark.parametrize(
    "text", ["[]", "null", "3", "{}", '{"format": "1"}', '{"format": null}', '{"model_type": "vit"}']
)
def test_json_of_someone_else_is_refused(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(ValueError, match="has no format number: it was not written by tokenstn"):
        tokenstn.load(folder)


def test_a_newer_format_is_refused_before_anything_else_is_read(folder):
    (folder / "config.json").write_text('{"format": 2, "tokenstn": "9.9", "surprise": []}')
    with pytest.raises(ValueError, match=r"format 2, written by tokenstn 9\.9.*upgrade tokenstn"):
        tokenstn.load(folder)


KEYS = (
    *("classifier", "input_size", "primitives", "posterior", "shared", "localization_size", "encoder"),
    *("multi_label", "auto", "preprocessing", "classes", "thresholds"),
)


@pytest.mark.parametrize("key", [*KEYS, "tokenstn"])
def test_a_missing_key_is_named(folder, key):
    config = json.loads((folder / "config.json").read_text())
    del config[key]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=rf"config\.json does not fit format 1: missing \['{key}'\]"):
        tokenstn.load(folder)


def test_an_unknown_key_is_named(folder):
    change(folder, surprise=1)
    with pytest.raises(ValueError, match=r"unknown \['surprise'\]"):
        tokenstn.load(folder)


WRONG = [0, -1, 2.5, "", "x", True, math.nan, [], [1], ["a", "b"], [[]], [0, 0], {}, {"a": 1}, None]
MEANT = {  # of these, the values that a key may have
    "primitives": ([],),
    "shared": (None, "x"),
    "localization_size": (None,),
    "encoder": (None,),
    "multi_label": (True,),
    "preprocessing": (None,),
    "classes": (None, [], ["a", "b"]),
    "thresholds": (None,),
}


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key in KEYS for value in WRONG if repr(value) not in map(repr, MEANT.get(key, ()))],
)
def test_a_value_of_the_wrong_type_is_refused_with_a_sentence(folder, key, value):
    change(folder, **{key: value})
    with pytest.raises(
        ValueError, match=r"config\.json (does not fit format 1|describes a model that cannot be built)"
    ):
        tokenstn.load(folder)


@pytest.mark.parametrize(
    ("primitive", "reason"),
    [
        ({"kind": "rotation", "bound": "3"}, "primitives"),
        ({"kind": "rotation", "bound": [3]}, "primitives"),
        ({"kind": "rotation", "bound": True}, "primitives"),
        ({"kind": "rotation", "bound": None}, "primitives"),
        ({"kind": "rotation"}, "primitives"),
        ({"kind": "rotation", "bound": 1.0, "more": 1}, "primitives"),
        ({"kind": "rotation", "bound": -1.0}, "bound of rotation"),
        ({"kind": "rotation", "bound": math.nan}, "bound of rotation"),
        ({"kind": "rotation", "bound": math.inf}, "bound of rotation"),
        ({"kind": "twist", "bound": 1.0}, "unknown primitive 'twist'"),
        ("rotation", "primitives"),
    ],
    ids=str,
)
def test_a_primitive_out_of_bounds_is_refused(folder, primitive, reason):
    change(folder, primitives=[primitive])
    with pytest.raises(ValueError, match=rf"config\.json.*{reason}"):
        tokenstn.load(folder)


@pytest.mark.parametrize(
    ("key", "values", "reason"),
    [
        ("auto", {"mass": math.nan}, "mass"),
        ("auto", {"mass": "0.9"}, "auto"),
        ("auto", {"most": 2.5}, "auto"),
        ("auto", {"most": 0}, "auto"),
        ("thresholds", {"surprise": 1}, "thresholds has the fields of_class, of_pose, settings; got .*surprise"),
        ("thresholds", {"of_class": 0.5}, "of_class has the fields combination, threshold, guarantee; got 0.5"),
        ("thresholds", {"settings": None}, "thresholds.settings has the fields"),
        ("preprocessing", {"mean": "123"}, "preprocessing"),
        ("preprocessing", {"std": [0.1, 0.0, 0.1]}, "std above 0"),
        ("preprocessing", {"resize": "stretch"}, "resize"),
        ("preprocessing", {"crop_share": 2.0}, "crop_share"),
        ("preprocessing", {"surprise": 1}, "preprocessing"),
        ("classifier", {"name": "hf-hub:someone/model"}, "no model named"),
        ("classifier", {"name": "local-dir:/tmp"}, "no model named"),
        ("classifier", {"name": 18}, "a name and a dict"),
        ("classifier", {"library": "keras"}, "unknown model library"),
        ("classifier", {"arguments": None}, "a name and a dict"),
        ("classifier", {"arguments": {"pretrained": True}}, "other weights"),
        ("classifier", {"arguments": {"checkpoint_path": "x.pth"}}, "other weights"),
        ("classifier", {"arguments": {"no_such_argument": 1}}, "no_such_argument"),
        ("classifier", {"arguments": {"img_size": "large"}}, "cannot be built"),
        ("classifier", {"surprise": 1}, "surprise"),
    ],
    ids=str,
)
def test_a_bad_setting_is_refused(folder, key, values, reason):
    change_inside(folder, key, **values)
    with pytest.raises(ValueError, match=rf"config\.json.*{reason}"):
        tokenstn.load(folder)


CLASS, POSE = ("of_class", "guarantee"), ("of_pose",)


@pytest.mark.parametrize(
    ("path", "values", "reason"),
    [
        (("of_class",), {"threshold": math.nan}, "threshold is nan: a finite number"),
        (("of_class",), {"threshold": math.inf}, "threshold is inf: a finite number"),
        (("of_class",), {"threshold": "high"}, "threshold is 'high': a finite number"),
        (("of_class",), {"threshold": True}, "threshold is True: a finite number"),
        (("of_class",), {"more": 1}, "of_class has the fields combination, threshold, guarantee; got"),
        (("of_class", "combination"), {"names": ["confidence", "mood"]}, r"unknown uncertainties \['mood'\]"),
        (("of_class", "combination"), {"names": ["confidence", "entropy_twist"]}, r"unknown .*\['entropy_twist'\]"),
        (("of_class", "combination"), {"names": "confidence"}, "names='confidence': a list"),
        (("of_class", "combination"), {"weights": [1.0]}, "weights has 1 values for 2 names"),
        (("of_class", "combination"), {"weights": [1.0, math.nan]}, "one of weights is nan"),
        (("of_class", "combination"), {"stds": [1.0, 0.0]}, "above 0"),
        (("of_class", "combination"), {"transforms": ["log", "exp"]}, "identity or log"),
        (("of_class", "combination"), {"intercept": None}, "intercept is None"),
        (CLASS, {"target_risk": 1.5}, "guarantee: target_risk=1.5: between 0 and 1"),
        (CLASS, {"confidence": "95 %"}, "confidence is '95 %': a finite number"),
        (CLASS, {"bound": 0.06}, "a risk of up to 0.06, above the target"),
        (CLASS, {"errors": 90}, "90 errors among 80 accepted of 100"),
        (CLASS, {"images": 100.0}, "whole numbers"),
        (CLASS, {"assumptions": None}, "assumptions=None: words"),
        (POSE, {"primitives": ["twist"]}, r"unknown primitives \['twist'\]"),
        (POSE, {"primitives": []}, "a list of at least one"),
        (POSE, {"threshold": -math.inf}, "threshold is -inf"),
        (("settings",), {"views": 0}, "views=0: a number from 1 up"),
        (("settings",), {"views": True}, "views=True: a number from 1 up"),
        (("settings",), {"auto": None}, "AutoViews with views"),
        (("settings", "auto"), {"mass": "0.9"}, "mass in"),
        (("settings",), {"sampling": "best"}, "sampling='best': one of probable, random"),
        (("settings",), {"precision": "int8"}, "precision='int8': one of"),
        (("settings",), {"execution": "magic"}, "execution='magic': one of torch, onnx"),
    ],
    ids=str,
)
def test_bad_thresholds_are_refused_with_a_sentence(folder, path, values, reason):
    thresholds = inner = json.loads((folder / "config.json").read_text())["thresholds"]
    for part in path:
        inner = inner[part]
    inner.update(values)
    change(folder, thresholds=thresholds)
    with pytest.raises(ValueError, match=rf"config\.json describes a model that cannot be built.*{reason}"):
        tokenstn.load(folder)


def test_thresholds_of_another_model_are_refused(folder):
    change(folder, primitives=[{"kind": "scale", "bound": 0.7}])
    with pytest.raises(
        ValueError, match=r"found with another model: they look at rotation .*this model estimates scale"
    ):
        tokenstn.load(folder)


@pytest.mark.parametrize(
    ("key", "value"), [("posterior", "cauchy"), ("shared", 99), ("shared", "blocks.99"), ("shared", "nowhere")]
)
def test_a_choice_that_does_not_exist_is_refused(folder, key, value):
    change(folder, **{key: value})
    with pytest.raises(ValueError, match=rf"config\.json describes a model that cannot be built.*{value}"):
        tokenstn.load(folder)


def without_one(weights: dict) -> dict:
    return dict(list(weights.items())[1:])


def with_another(weights: dict) -> dict:
    return {**weights, "surprise": torch.zeros(1)}


def reshaped(weights: dict) -> dict:
    key = next(iter(weights))
    return {**weights, key: torch.zeros(*weights[key].shape, 1)}


@pytest.mark.parametrize(
    ("alter", "reason"),
    [(without_one, "1 missing"), (with_another, "1 unexpected: surprise"), (reshaped, "1 of another shape")],
)
def test_weights_that_do_not_fit_are_reported_by_name(folder, alter, reason):
    path = folder / "model.safetensors"
    save_file(alter(from_bytes(path.read_bytes())), path)
    with pytest.raises(ValueError, match=f"do not fit the model.*{reason}"):
        tokenstn.load(folder)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, None])
def test_weights_cut_short_or_absent_are_refused(folder, share):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.unlink() if share is None else path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be read"):
        tokenstn.load(folder)


def test_a_pickle_in_place_of_the_weights_is_not_opened(folder):
    path = folder / "model.safetensors"
    torch.save(from_bytes(path.read_bytes()), path)
    with pytest.raises(ValueError, match="cannot be read"):
        tokenstn.load(folder)


def test_loading_says_nothing_where_nothing_is_wrong(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenstn.load(folder)
