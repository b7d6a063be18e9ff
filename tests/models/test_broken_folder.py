"""A broken model folder is refused with a sentence that names the file and what is wrong with it."""

import json
import math
import warnings

import pytest
import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import save_file

import tokenstn

from .model_folders import change, change_inside


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
