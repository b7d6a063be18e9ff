"""A localizer that is to read images from closer by as well learns both sizes in turns."""

from __future__ import annotations

from dataclasses import replace

import pytest
import timm
import torch

from tokenstn import Preprocessing, TokenSTN
from tokenstn.data import ImageTable
from tokenstn.training import engine
from tokenstn.training.recipes import DEFAULT

PREPARED = Preprocessing((32, 32), (0.5,) * 3, (0.5,) * 3)
RECIPE = replace(DEFAULT, epochs=3, batch_size=8)


def table(images: int) -> ImageTable:
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (images, 3, 32, 32), dtype=torch.uint8)
    return ImageTable("noise", pixels, torch.arange(images) % 4, ("a", "b", "c", "d"), {"train": torch.arange(images)})


def sides_read(
    closer: float | None, images: int, out, primitives=("rotation",), posterior="circular", **how
) -> list[int]:
    """The sides of the images that the shared layers got to see in each step."""
    torch.manual_seed(0)
    classifier = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, num_classes=4)
    model = TokenSTN(
        classifier, primitives, posterior, 1, localization_size=0.5, closer_size=closer, preprocessing=PREPARED
    )
    assert model.backbone.prefix is not None
    read, seen = model.backbone.prefix, []
    model.backbone.prefix = lambda images: (seen.append(images.shape[-1]), read(images))[1]
    engine.train_rectifier(model, table(images), RECIPE, out, machine=engine.Machine("cpu", progress=False), **how)
    return seen


@pytest.mark.parametrize(
    ("closer", "images", "wanted"),
    [
        (1.0, 16, [16, 32, 32, 16, 16, 32]),  # two steps in each of three epochs
        (1.0, 8, [16, 32, 16]),  # an epoch of one step has its turn, too
        (None, 16, [16] * 6),
    ],
)
def test_steps_take_turns(closer, images, wanted, tmp_path):
    assert sides_read(closer, images, tmp_path) == wanted


@pytest.mark.parametrize(
    "settings",
    [{"posterior": "gaussian"}, {"primitives": ("rotation", "translation")}, {"primitives": ("scale",)}],
    ids=str,
)
def test_what_is_never_read_from_closer_by_is_not_learned(settings, tmp_path):
    assert sides_read(1.0, 8, tmp_path, **settings) == [16, 16, 16]


def test_both_turns_of_an_image_are_read_alike_where_images_do_not_come_upright(tmp_path):
    assert sides_read(1.0, 8, tmp_path, upright=False) == [16, 16, 32, 32, 16, 16]
