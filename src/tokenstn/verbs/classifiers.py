"""Which classifier a person means: a model folder, a timm name, or none for small images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import timm
import torch

import tokenstn
from tokenstn.data import ImageTable
from tokenstn.models import Preprocessing, TokenSTN

SMALL_IMAGE = 64  # pixels along the shorter side


def find_classifier(classifier: str | None, table: ImageTable, pretrained: bool = True) -> tuple[TokenSTN, bool]:
    """A bare model for the images of a table, and whether it is ready as it is or has to be trained on them first."""
    if classifier is None:
        return _small_vit(table), False
    if Path(classifier).is_dir():
        return _from_folder(classifier, table), True
    if not timm.is_model(classifier):
        raise ValueError(
            f"--classifier {classifier}: neither a model folder nor a timm name; timm.list_models() names them"
        )
    network = timm.create_model(classifier, pretrained=pretrained, num_classes=len(table.classes) or 1000)
    return TokenSTN(network, primitives=(), classes=table.classes or None, multi_label=table.multi_label), False


def _small_vit(table: ImageTable) -> TokenSTN:
    """A ViT of 0.5 M parameters for images held in memory, with their own mean and spread."""
    if not isinstance(table.items, torch.Tensor) or min(table.items.shape[-2:]) > SMALL_IMAGE:
        raise ValueError(
            f"{table.name}: name a classifier for such images, --classifier with a model folder or timm name"
        )
    side = min(table.items.shape[-2:])
    pixels = table.items[table.split("train")].float() / 255
    settings: dict[str, Any] = {"embed_dim": 96, "depth": 4, "num_heads": 4, "img_size": side, "patch_size": 4}
    network = timm.create_model(
        "vit_tiny_patch16_224", in_chans=table.channels, num_classes=max(1, len(table.classes)), **settings
    )
    prepared = Preprocessing(
        size=(side, side), mean=tuple(pixels.mean((0, 2, 3)).tolist()), std=tuple(pixels.std((0, 2, 3)).tolist())
    )
    return TokenSTN(
        network, primitives=(), classes=table.classes or None, multi_label=table.multi_label, preprocessing=prepared
    )


def _from_folder(folder: str, table: ImageTable) -> TokenSTN:
    """The classifier of a model folder, without a rectifier that it may have."""
    model = tokenstn.load(folder)
    if table.classes and model.classes is not None and model.classes != table.classes:
        raise ValueError(
            f"{folder} knows the classes {_some(model.classes)}, {table.name} has {_some(table.classes)}: they must be "
            "the same, in the same order"
        )
    return TokenSTN(
        model.classifier,
        primitives=(),
        input_size=model.backbone.input_size,
        multi_label=model.multi_label,
        preprocessing=model.preprocessing,
        classes=model.classes or table.classes or None,
    )


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
