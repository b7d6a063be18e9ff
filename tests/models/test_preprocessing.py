"""What an image went through is a value: checked, comparable, read off a classifier, and exchanged between two."""

import math

import pytest
import timm
import torch

from tokenstn import Preprocessing
from tokenstn.models.preprocessing import renormalise

from .classifiers import PlainCNN

COLOUR = Preprocessing(size=(32, 48), mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
OTHER = Preprocessing(size=(64, 64), mean=(0.0, 0.1, 0.2), std=(1.0, 0.5, 0.25))
GREY = Preprocessing(size=(32, 48), mean=(0.5,), std=(0.2,))


def test_lists_as_json_has_them_make_an_equal_value():
    assert Preprocessing(size=[32, 48], mean=[0.5, 0.4, 0.3], std=[0.2, 0.3, 0.4]) == COLOUR


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", 224),
        ("size", (224,)),
        ("size", (0, 224)),
        ("size", (224.5, 224)),
        ("size", "ab"),
        ("mean", 0.5),
        ("mean", (0.5,)),
        ("mean", ()),
        ("mean", ("a", "b", "c")),
        ("mean", (math.nan, 0.5, 0.5)),
        ("std", (0.2, 0.0, 0.2)),
        ("std", (0.2, -0.1, 0.2)),
        ("std", (0.2, math.nan, 0.2)),
        ("std", (0.2, math.inf, 0.2)),
        ("std", None),
        ("resize", "stretch"),
        ("interpolation", "nearest"),
        ("crop_share", 0.0),
        ("crop_share", 1.1),
        ("crop_share", math.nan),
    ],
)
def test_a_bad_value_is_refused_by_name(field, value):
    settings = {"size": (32, 48), "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)}
    with pytest.raises(ValueError, match=f"preprocessing .*{field}"):
        Preprocessing(**{**settings, field: value})


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224", "fastvit_t8"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_timm_classifier_has_one_mean_per_channel_it_reads(name, channels):
    found = Preprocessing.of(timm.create_model(name, in_chans=channels), (64, 96))
    assert found is not None
    assert found.size == (64, 96)
    assert len(found.mean) == len(found.std) == channels


def test_a_timm_classifier_says_how_its_images_were_made():
    classifier = timm.create_model("resnet18")
    found = Preprocessing.of(classifier, (64, 64))
    expected = timm.data.resolve_data_config(model=classifier)
    assert found is not None
    assert (found.mean, found.std) == (expected["mean"], expected["std"])
    assert (found.crop_share, found.interpolation) == (expected["crop_pct"], expected["interpolation"])


@pytest.mark.parametrize(("mode", "resize"), [("squash", "squash"), ("center", "crop"), (None, "crop")])
def test_a_timm_classifier_says_whether_its_images_were_squashed(mode, resize):
    classifier = timm.create_model("resnet18", pretrained_cfg_overlay={"crop_mode": mode} if mode else None)
    found = Preprocessing.of(classifier, (64, 64))
    assert found is not None and found.resize == resize


def test_other_classifiers_say_nothing():
    assert Preprocessing.of(PlainCNN(), (64, 64)) is None


def test_renormalised_images_show_the_same_pixels():
    pixels = torch.rand(2, 3, 4, 4)
    as_given, as_wanted = (
        (pixels - torch.tensor(p.mean)[:, None, None]) / torch.tensor(p.std)[:, None, None] for p in (COLOUR, OTHER)
    )
    torch.testing.assert_close(renormalise(as_given, COLOUR, OTHER), as_wanted)


@pytest.mark.parametrize(("given", "wanted"), [(None, OTHER), (COLOUR, None), (COLOUR, COLOUR)])
def test_images_are_left_alone_where_nothing_is_known_or_differs(given, wanted):
    images = torch.rand(1, 3, 4, 4)
    assert renormalise(images, given, wanted) is images


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_renormalising_keeps_the_dtype(dtype):
    assert renormalise(torch.rand(1, 3, 4, 4, dtype=dtype), COLOUR, OTHER).dtype == dtype


def test_grey_images_are_not_renormalised_for_a_colour_rectifier():
    with pytest.raises(ValueError, match="1 channels cannot be read by a rectifier of 3"):
        renormalise(torch.rand(1, 1, 4, 4), GREY, COLOUR)
