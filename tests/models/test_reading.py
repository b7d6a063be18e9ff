"""What the localizer of a new rectifier reads where nobody says."""

from dataclasses import asdict

import pytest
import timm
import torch

from tokenstn import TokenSTN
from tokenstn.models.reading import Reading, usual_reading

from .classifiers import PlainCNN


@pytest.mark.parametrize(
    ("name", "options", "reading"),
    [
        ("vit_tiny_patch16_224", {}, Reading(4, 0.36, 5, 0.5)),
        ("vit_tiny_patch16_224", {"depth": 24}, Reading(8, 0.36, 5, 0.5)),
        ("eva02_tiny_patch14_224", {}, Reading(4, 0.36, 5, 0.5)),
        ("vit_base_patch32_224", {"embed_dim": 192, "depth": 3}, Reading(2, 0.5, 5)),  # a share of 7 tokens is too few
        ("vit_tiny_patch16_224", {"img_size": 64, "patch_size": 4}, Reading(2, 1.0, 14)),
        ("swin_tiny_patch4_window7_224", {}, Reading(2, 0.5, 5)),
        ("mixer_s32_224", {}, Reading(2, 0.5, 5)),  # it has one size, and is read at that
        ("resnet18", {}, Reading(2, 0.5, 5)),
    ],
)
@pytest.mark.filterwarnings("ignore:.*cannot read images at half size")
def test_plain_vits_are_read_deeper_and_smaller_and_small_images_as_a_whole(name, options, reading):
    classifier = timm.create_model(name, num_classes=3, **options)
    size = options.get("img_size", 224)
    assert usual_reading(classifier, (size, size)) == reading
    model = TokenSTN(classifier, **asdict(reading))
    assert model.localize(torch.rand(1, 3, size, size)).keys() == {"rotation", "scale"}


def test_small_images_of_a_network_by_hand_are_read_as_a_whole():
    assert usual_reading(PlainCNN(), (32, 48)) == Reading(2, 1.0, 14)
