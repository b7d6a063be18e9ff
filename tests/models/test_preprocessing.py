"""What an image went through is a value: checked, comparable, read off a classifier, and exchanged between two."""

import math

import pytest
import timm
import torch
from PIL import Image

from tokenstn import Preprocessing
from tokenstn.data import fit
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


@pytest.mark.parametrize("photo", [(90, 150), (200, 120)], ids=["wide", "high"])
@pytest.mark.parametrize(
    ("mode", "share", "resize"),
    [("squash", 1.0, "squash"), ("border", 1.0, "pad"), ("center", 1.0, "crop"), ("center", 0.875, "crop")],
)
def test_photos_come_to_lie_where_timm_puts_them(mode, share, resize, photo):
    classifier = timm.create_model("test_resnet", pretrained_cfg_overlay={"crop_mode": mode, "crop_pct": share})
    found = Preprocessing.of(classifier, (64, 64))
    assert found is not None and (found.resize, found.crop_share) == (resize, share)
    # ramps, whose values say what place of the photo a pixel shows
    height, width = photo
    down, across = torch.meshgrid(torch.linspace(0, 255, height), torch.linspace(0, 255, width), indexing="ij")
    ramps = torch.stack((down, across, torch.zeros_like(down))).byte()
    ours = fit(ramps, found.size, found.resize, found.crop_share, found.interpolation)
    config = {**timm.data.resolve_data_config(model=classifier), "input_size": (3, 64, 64)}
    transform = timm.data.create_transform(**config, normalize=False)
    theirs = transform(Image.fromarray(ramps.permute(1, 2, 0).numpy()))
    in_photo = theirs[2] == 0  # timm's border is of one colour, and not black
    assert in_photo.float().mean() > 0.5
    one_pixel = 255 / 64
    assert ((ours[:2].int() - theirs[:2].int()).abs() * in_photo).max() <= one_pixel


@pytest.mark.parametrize("mode", ["squash", "border"])
def test_a_photo_that_is_not_cropped_is_seen_whole_and_the_value_says_so(mode):
    overlay = {"crop_mode": mode, "crop_pct": 0.9}
    found = Preprocessing.of(timm.create_model("test_resnet", pretrained_cfg_overlay=overlay), (64, 64))
    assert found is not None and found.crop_share == 1.0


def test_a_timm_classifier_that_does_not_say_so_has_its_images_cropped():
    found = Preprocessing.of(timm.create_model("resnet18"), (64, 64))
    assert found is not None and found.resize == "crop"


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
