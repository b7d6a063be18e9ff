"""Reading an image again: where the angle is in doubt, the same localizer reads the image at four quarter turns.

A quarter turn of a square image moves its angle by nine bins of the ring and changes nothing else, so that the four
readings can be averaged: mistakes that one of them makes are seldom made by the others. A localizer that has learned to
read from closer by does so for all four; otherwise the first reading is one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from tokenstn.geometry import Primitive
from tokenstn.posteriors import Circular, Posterior

TURNS = 4
UNTURNED = ("scale", "shear")  # what stays the same when an image is turned; a translation and a reflection do not


def can_be_turned(posteriors: Mapping[str, Posterior], images: Tensor) -> bool:
    """Whether readings of the turned images can be averaged."""
    families = {posterior.primitive: type(posterior) for posterior in posteriors.values()}
    return can_turn(families, (images.shape[-2], images.shape[-1]))


def can_turn(families: Mapping[Primitive, type[Posterior]], size: tuple[int, int]) -> bool:
    """The same for the families of a model and a size ``(height, width)``: a full ring of angles, and squares.

    >>> from tokenstn.geometry import Rotation
    >>> can_turn({Rotation(): Circular}, (196, 196)), can_turn({Rotation(bound=1.0): Circular}, (196, 196))
    (True, False)
    """
    ring = any(
        issubclass(family, Circular) and getattr(each, "full_circle", False) for each, family in families.items()
    )
    others = all(each.name in UNTURNED for each in families if each.name != "rotation")
    return ring and others and size[0] == size[1]


def read_again(
    localize: Callable[[Tensor], Mapping[str, Posterior]], images: Tensor, first: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """The raw numbers of the posteriors of images ``(B, C, h, h)``: the mean of a reading at each quarter turn.

    first: the raw numbers of the unturned images, where they are to count; they are read as well when None.
    """
    turns = range(0 if first is None else 1, TURNS)
    read = localize(torch.cat([images.rot90(turn, (-2, -1)) for turn in turns]))
    found = {}
    for name, posterior in read.items():
        each = posterior.raw.chunk(len(turns))
        readings = torch.stack(each if first is None else (first[name], *each))
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
