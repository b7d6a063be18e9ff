"""Methods by name."""

import pytest

from tokenstn.baselines import METHODS, Rival, create
from tokenstn.baselines.registry import _BUILDERS
from tokenstn.baselines.stn import SpatialTransformer
from tokenstn.geometry import OneSidedScale
from tokenstn.models import TokenSTN

from ..models.classifiers import PlainCNN, small_vit

FAMILIES = {
    "tokenstn": "circular",
    "tokenstn-gauss": "gaussian",
    "tokenstn-gamma": "student",
    "tokenstn-point": "point",
}


def test_every_described_method_can_be_built():
    assert METHODS.keys() == _BUILDERS.keys() and len(METHODS) == 18
    assert all("\n" not in description for description in METHODS.values())


@pytest.mark.parametrize("name", FAMILIES)
def test_the_papers_variants_are_presets_of_tokenstn(name):
    model = create(name, small_vit())
    assert isinstance(model, TokenSTN) and model.posterior == FAMILIES[name]
    if name != "tokenstn":
        assert [p.name for p in model.primitives] == ["rotation", "scale", "shear"]
        assert isinstance(model.primitives[1], OneSidedScale)
        assert model.localization_size == 32  # all of it, where the default reads half
    assert [p.name for p in create(name, small_vit(), primitives=("rotation",)).primitives] == ["rotation"]


def test_options_reach_the_method():
    model = create("its", PlainCNN(), points=5, hypotheses=2, classes=("a", "b"))
    assert isinstance(model, Rival) and model.classes == ("a", "b") and model.points == 5
    assert create("vanilla", "resnet18").bare and not create("vanilla", PlainCNN(), local_averaging=True).bare


def test_an_unknown_method_is_answered_with_the_list():
    with pytest.raises(ValueError, match=r"unknown method 'stm'; there are tokenstn, .*canprior-s"):
        create("stm", PlainCNN())


def test_an_unknown_option_is_answered_with_those_there_are():
    with pytest.raises(ValueError, match=r"stn does not take primitives; its options are input_size"):
        create("stn", PlainCNN(), primitives=("rotation",))
    with pytest.raises(TypeError, match="SpatialTransformer does not take primitives"):
        SpatialTransformer(PlainCNN(), primitives=("rotation",))
    with pytest.raises(ValueError, match="tokenstn-gauss does not take posterior"):
        create("tokenstn-gauss", PlainCNN(), posterior="point")


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("its", {"primitives": ("translation",)}, "leave it out"),
        ("its", {"hypotheses": 9}, "hypotheses"),
        ("its", {"sigma": 0.0}, "sigma"),
        ("its", {"primitives": ()}, "at least one"),
        ("head-stn", {"primitives": ("reflection",)}, "reflection"),
        ("head-stn", {"primitives": ()}, "at least one"),
        ("pstn-gamma", {"kl_weight": -1.0}, "kl_weight"),
        ("canprior-g", {"order": 6}, "multiple of four"),
        ("canprior-s", {"size": 4}, "at least 8 pixels"),
        ("vanilla", {"reach": 0.0}, "reach"),
        ("tta", {"usual_views": 0}, "usual_views"),
        ("tta", {"elements": "turns"}, "unknown group"),
    ],
)
def test_a_bad_value_is_refused_with_a_sentence(name, options, said):
    with pytest.raises(ValueError, match=said):
        create(name, PlainCNN(), **options)


def test_an_ablation_that_no_folder_can_hold_says_so(tmp_path):
    model = create("tokenstn-pixels", PlainCNN())
    assert isinstance(model, TokenSTN) and not isinstance(
        model.localizer, type(create("tokenstn", small_vit()).localizer)
    )
    with pytest.raises(ValueError, match="nothing was written"):
        model.save_pretrained(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
