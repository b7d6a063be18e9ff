"""Reading an image again: where the angle is in doubt, the same localizer also reads the image at three quarter turns.

A quarter turn of a square image moves its angle by nine bins of the ring and changes nothing else, so that the four
readings can be averaged: mistakes that one of them makes are seldom made by the others.
"""

from __future__ import annotations

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
    localize: Callable[[Tensor], Mapping[str, Posterior]],
    images: Tensor,
    posteriors: Mapping[str, Posterior],
    rows: Tensor,
) -> dict[str, Tensor]:
    """The raw numbers of the posteriors of images ``(B, C, h, h)``; in some rows the mean of four readings."""
    turned = localize(torch.cat([images[rows].rot90(turn, (-2, -1)) for turn in range(1, TURNS)]))
    found = {}
    for name, posterior in posteriors.items():
        readings = torch.stack((posterior.raw[rows], *turned[name].raw.chunk(TURNS - 1)))
        if name == "rotation":
            bins = readings.shape[-1] // TURNS  # of a quarter turn
            readings = torch.stack([ring.roll(turn * bins, -1) for turn, ring in enumerate(readings.log_softmax(-1))])
        found[name] = posterior.raw.index_copy(0, rows, readings.mean(0))
    return found
