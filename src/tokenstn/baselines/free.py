"""Primitives without bounds: the value is the identity plus whatever the network says.

Head-STN and P-STN do not squash. The bounds of the primitive that one stands for are kept for what needs a range: the
grid of the entropy, and the poses that training draws. A scale that turns negative is half a turn, as its matrix is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tokenstn.geometry import Primitive, Rotation, Scale, Shear, Translation, as_primitives


class _Free:
    identity: ClassVar[float]

    def squash(self, u: Tensor) -> Tensor:
        return self.identity + u

    def unsquash(self, value: Tensor) -> Tensor:
        return value - self.identity

    def log_slope(self, u: Tensor) -> Tensor:
        return torch.zeros_like(u)


@dataclass(frozen=True)
class FreeRotation(_Free, Rotation):
    """θ = u, on as many turns as it likes."""


@dataclass(frozen=True)
class FreeScale(_Free, Scale):
    """s = 1 + u."""


@dataclass(frozen=True)
class FreeShear(_Free, Shear):
    """h = u."""


@dataclass(frozen=True)
class FreeTranslation(_Free, Translation):
    """t = u for x and y."""


_FREE: dict[str, type[Primitive]] = {kind.name: kind for kind in (FreeRotation, FreeScale, FreeShear, FreeTranslation)}


def free_primitives(wanted: Iterable[str | Primitive]) -> tuple[Primitive, ...]:
    """The same primitives without bounds.

    >>> [p.squash(torch.tensor(7.0)).item() for p in free_primitives(("rotation", "scale"))]
    [7.0, 8.0]
    """
    bounded = as_primitives(wanted)
    if any(primitive.name not in _FREE for primitive in bounded):
        raise ValueError("a reflection is +1 or −1 and cannot be regressed without bounds: leave it out")
    return tuple(_FREE[primitive.name](primitive.bound) for primitive in bounded)
