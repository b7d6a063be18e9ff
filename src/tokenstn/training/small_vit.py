"""A small classifier for small images, to be trained where there is none yet."""

from __future__ import annotations

from typing import Any

import timm
import torch
from torch import nn

from tokenstn.data import ImageTable
from tokenstn.models import Preprocessing, TokenSTN
from tokenstn.models.reading import SMALL_IMAGE

PATCHES = 4  # along each side


def small_vit(table: ImageTable, **shape: Any) -> TokenSTN:
    """A bare, untrained ViT of 0.5 M parameters for images held in memory, with their own mean and spread.

    Args:
        shape: what differs, as timm's ViT takes it: embed_dim, depth, num_heads, patch_size.
    """
    if not table.classes:
        raise ValueError(f"{table.name} has no labels to train a classifier with: name a trained one with --classifier")
    if not isinstance(table.items, torch.Tensor) or min(table.items.shape[-2:]) > SMALL_IMAGE:
        raise ValueError(
            f"{table.name}: name a classifier for such images, --classifier with a model folder or timm name"
        )
    side = PATCHES * (min(table.items.shape[-2:]) // PATCHES)
    pixels = table.items[table.split("train")].float() / 255
    settings: dict[str, Any] = {
        "embed_dim": 96, "depth": 4, "num_heads": 4, "img_size": side, "patch_size": side // PATCHES, **shape,
    }  # fmt: skip
    network = timm.create_model(
        "vit_tiny_patch16_224", in_chans=table.channels, num_classes=len(table.classes), **settings
    )
    for module in network.modules():  # on few images this learns much faster than timm's own start
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(module.weight.flatten(1))
    prepared = Preprocessing(
        size=(side, side), mean=tuple(pixels.mean((0, 2, 3)).tolist()), std=tuple(pixels.std((0, 2, 3)).tolist())
    )
    return TokenSTN(
        network, primitives=(), classes=table.classes, multi_label=table.multi_label, preprocessing=prepared
    )
