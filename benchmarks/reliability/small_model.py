"""A small model that finds some other pose in every image, untrained: for drills that are about everything else."""

from __future__ import annotations

from pathlib import Path

import timm
import torch

from tokenstn import Preprocessing, TokenSTN

CLASSES = ("ash", "birch", "cedar", "doum", "elm")
SIDE = 32


def small_model() -> TokenSTN:
    """A ViT of three blocks for colour images of 32 × 32 pixels, with a rectifier that turns and scales at random."""
    torch.manual_seed(0)
    classifier = timm.create_model(
        "vit_tiny_patch16_224",
        img_size=SIDE,
        patch_size=4,
        embed_dim=48,
        depth=3,
        num_heads=3,
        num_classes=len(CLASSES),
    )
    grey = (0.5,) * 3
    model = TokenSTN(classifier, classes=CLASSES, preprocessing=Preprocessing((SIDE, SIDE), grey, (0.25,) * 3))
    assert model.localizer is not None
    with torch.no_grad():
        for parameter in model.localizer.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def saved_model(folder: Path) -> Path:
    """The same as a model folder."""
    small_model().save_pretrained(folder)
    return folder
