"""What a call is refused for, with a sentence: the same for every method."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

AUTO_AT_RANDOM = 'views="auto" chooses the most probable views; give a number to sample at random'


def check_call(images: Tensor, channels: int | None, views: int | str, sampling: str) -> None:
    """Refuse bad input with a sentence.

    Values are looked at in eager mode on the CPU only: on a GPU, looking would wait for everything before it. There,
    and in a compiled graph, the answer for an image that is not finite is not a number.
    """
    if images.ndim != 4:
        raise ValueError(f"images have shape (B, C, H, W), got {tuple(images.shape)}; add the missing axes")
    if not images.is_floating_point():
        raise ValueError(f"images are floating point and normalised, got {images.dtype}; convert and normalise them")
    if channels is not None and images.shape[1] != channels:
        raise ValueError(
            f"images have {images.shape[1]} channels, the classifier takes {channels}; convert them, for example "
            f"grey to colour with images.expand(-1, 3, -1, -1)"
        )
    if sampling not in ("probable", "random"):
        raise ValueError(f"sampling={sampling!r}: probable or random")
    if views == "auto":
        if sampling == "random":
            raise ValueError(AUTO_AT_RANDOM)
        if torch.compiler.is_compiling():
            raise ValueError('views="auto" depends on the images: compile or export with a number of views')
    elif not isinstance(views, int) or isinstance(views, bool) or views < 1:
        raise ValueError(f'views={views!r}: a number from 1 up, or "auto"')
    if torch.compiler.is_compiling():
        return
    if len(images) == 0:
        raise ValueError("the batch is empty: give at least one image")
    if images.device.type == "cpu" and not bool(torch.isfinite(images).all()):
        rows = (~torch.isfinite(images).flatten(1).all(1)).nonzero().flatten().tolist()
        raise ValueError(f"images {rows[:8]} of the batch have pixels that are not finite; remove or repair them")


def check_classes(logits: Tensor, classes: Sequence[str] | None) -> None:
    """Refuse answers ``(…, outputs)`` that are not as many as the classes that are named."""
    if classes is not None and logits.shape[-1] != len(classes):
        raise ValueError(
            f"the classifier has {logits.shape[-1]} outputs and {len(classes)} classes are named: give a name for each "
            "output, in their order"
        )
