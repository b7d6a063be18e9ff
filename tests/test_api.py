"""The names that others build on, and what importing them costs."""

import inspect
import subprocess
import sys

import pytest

import tokenstn


def modules_after(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a statement."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    )


def test_importing_the_package_imports_no_torch():
    assert "torch" not in modules_after("import tokenstn")


def test_geometry_needs_torch_and_nothing_heavier():
    loaded = modules_after("import tokenstn; tokenstn.geometry.Pose")
    assert "torch" in loaded
    assert not loaded & {"timm", "torchvision", "lightning", "pandas", "matplotlib", "transformers", "sklearn"}


def test_models_import_no_training_code():
    assert not modules_after("import tokenstn; tokenstn.TokenSTN") & {"lightning", "torchmetrics", "jsonargparse"}


@pytest.mark.parametrize(
    "name",
    ["TokenSTN", "Prediction", "Thresholds", "load", "convert", "create", "train", "evaluate", "diagnose", "compare",
     "export", "predict", "rectify", "serve", "demo", "bench",
     "geometry.compose", "geometry.decompose", "geometry.warp", "geometry.warp_points", "geometry.warp_boxes",
     "geometry.warp_mask", "geometry.invert", "geometry.Pose"],
)  # fmt: skip
def test_the_names_of_the_contract_exist(name):
    found = tokenstn
    for part in name.split("."):
        found = getattr(found, part)
    assert inspect.getdoc(found)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'TokenSNT'"):
        tokenstn.TokenSNT  # noqa: B018


def test_the_call_takes_what_the_contract_says():
    made = inspect.signature(tokenstn.TokenSTN).parameters
    assert list(made)[:5] == ["classifier", "primitives", "posterior", "shared", "localization_size"]
    assert made["posterior"].default == "circular" and made["shared"].default == 2
    called = inspect.signature(tokenstn.TokenSTN.forward).parameters
    assert list(called) == ["self", "images", "views", "sampling", "generator"]
    fields = set(tokenstn.Prediction.__dataclass_fields__)
    assert fields >= {
        "probabilities",
        "rectified",
        "pose",
        "entropy",
        "spread",
        "views",
        "pose_ambiguous",
        "class_uncertain",
    }
