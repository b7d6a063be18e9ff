"""What a classifier says about the images that enter it: how many channels they have, and how large its patches are."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tokenstn.models.twin import twin_of


def input_channels(classifier: nn.Module, size: tuple[int, int]) -> int | None:
    """How many channels its images have; None where nothing tells, and its input is not checked.

    size: height and width of images that it accepts.

    >>> import timm
    >>> input_channels(timm.create_model("resnet18", in_chans=4), (224, 224))
    4
    """
    first = next((module.in_channels for module in classifier.modules() if isinstance(module, nn.Conv2d)), None)
    made_for = getattr(classifier, "in_chans", None)  # most of timm's models keep it
    if not isinstance(made_for, int) or first == made_for:
        return first
    # either the first layer was replaced by hand, or the convolution that is listed first is not what images enter
    return made_for if first is None or _takes(classifier, made_for, size) else first


def patch_size(classifier: nn.Module) -> tuple[int, int]:
    """Height and width of its patches in pixels; one pixel where it has none.

    Those of a hybrid are as many pixels as a token stands for: it takes them from the map of a CNN.

    >>> import timm
    >>> patch_size(timm.create_model("xcit_nano_12_p16_224")), patch_size(timm.create_model("resnet18"))
    ((16, 16), (1, 1))
    """
    embedding: Any = getattr(classifier, "patch_embed", None)
    if hasattr(embedding, "feat_ratio"):
        size: Any = embedding.feat_ratio(as_scalar=False)
    else:
        size = getattr(embedding, "patch_size", None) or 1
    return (size, size) if isinstance(size, int) else (size[0], size[1])


@torch.no_grad()
def _takes(classifier: nn.Module, channels: int, size: tuple[int, int]) -> bool:
    """Whether it runs on images of so many channels."""
    weight = next(classifier.parameters(), torch.zeros(()))
    try:
        twin_of(classifier)(weight.new_zeros(1, channels, *size))
    except (RuntimeError, AssertionError, ValueError):
        return False
    return True
