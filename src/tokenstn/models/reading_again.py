"""Reading an image again: where the angle is in doubt, the same localizer also reads the image at three quarter turns.

A quarter turn of a square image moves its angle by nine bins of the ring and changes nothing else, so that the four
readings can be averaged: mistakes that one of them makes are seldom made by the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from tokenstn.posteriors import Circular, Posterior

TURNS = 4
UNTURNED = ("scale", "shear")  # what stays the same when an image is turned; a translation and a reflection do not


def can_be_turned(posteriors: Mapping[str, Posterior], images: Tensor) -> bool:
    """Whether readings of the turned images can be averaged: a full ring of angles, and squares."""
    angle = posteriors.get("rotation")
    others = all(name in UNTURNED for name in posteriors if name != "rotation")
    ring = isinstance(angle, Circular) and getattr(angle.primitive, "full_circle", False)
    return ring and others and images.shape[-2] == images.shape[-1]


def read_again(
    localize: Callable[[Tensor], Mapping[str, Posterior]], images: Tensor, first: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The raw numbers of the posteriors of images ``(B, C, h, h)``: the mean of the first reading and three more."""
    turned = localize(torch.cat([images.rot90(turn, (-2, -1)) for turn in range(1, TURNS)]))
    found = {}
    for name, raw in first.items():
        readings = torch.stack((raw, *turned[name].raw.chunk(TURNS - 1)))
        if name == "rotation":
            bins = readings.shape[-1] // TURNS  # of a quarter turn
            readings = torch.stack([ring.roll(turn * bins, -1) for turn, ring in enumerate(readings.log_softmax(-1))])
        found[name] = readings.mean(0)
    return found


def padded(rows: Tensor, batch: int) -> Tensor:
    """Rows ``(n,)`` of a batch, the last one repeated until they are a whole number of quarters of it.

    So that what is recorded for each number of them is recorded four times, and not for every number.

    >>> padded(torch.tensor([2, 5, 6]), batch=8)
    tensor([2, 5, 6, 6])
    """
    quarter = math.ceil(batch / 4)
    return torch.cat((rows, rows[-1:].expand(-len(rows) % quarter)))
