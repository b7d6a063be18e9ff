"""The five primitives a pose is made of, as values: name, bound, identity, squashing, unit and matrix.

A network predicts an unbounded u; the primitive squashes it into its own range, and knows the way back. The squashings
are the paper's, but for a scale that reaches both ways; the paper's one-sided one is ``OneSidedScale``.

Values have the shape of u; a translation has a last axis of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from tokenstn.geometry.affine import Pose, compose

NEARLY_PI = 1e-3  # radians: nobody means a seam that is this narrow by a bound such as 3.1416, or π in float32


@dataclass(frozen=True)
class Primitive:
    """One named, bounded part of a pose; the subclasses below are the ones there are.

    ``bound`` is in the primitive's ``unit``; ``start`` is the u at which a fresh network sits; ``components`` is the
    number of independent u (two for a translation); ``rising`` says whether the value grows with u.

    >>> slight = Rotation(bound=0.5)                     # of the primitive there is, a narrower range
    >>> slight.unsquash(slight.squash(torch.tensor(0.3)))
    tensor(0.3000)
    """

    bound: float

    name: ClassVar[str]
    unit: ClassVar[str]
    identity: ClassVar[float]
    start: ClassVar[float] = 0.0
    components: ClassVar[int] = 1
    rising: ClassVar[bool] = True
    largest_bound: ClassVar[float]

    def __post_init__(self) -> None:
        if not 0.0 < self.bound <= self.largest_bound:
            largest = "math.pi" if self.largest_bound == math.pi else f"{self.largest_bound:.7g}"
            raise ValueError(
                f"{type(self).__name__}(bound={self.bound!r}): the bound of {self.name} must be above 0 and at most "
                f"{largest} {self.unit}; leave {self.name} out of the primitives to switch it off"
            )

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value, in the primitive's unit."""
        return -self.bound, self.bound

    def squash(self, u: Tensor) -> Tensor:
        """The bounded value of an unbounded u."""
        return self.bound * torch.tanh(u)

    def unsquash(self, value: Tensor) -> Tensor:
        """The u of a value inside the range; ±∞ at its ends and beyond."""
        return torch.atanh((value / self.bound).clamp(-1, 1))

    def log_slope(self, u: Tensor) -> Tensor:
        """ln |d squash / du|, for densities of the bounded value."""
        # 1 − tanh² u = 4 / (eᵘ + e⁻ᵘ)², written so that it does not underflow for large |u|
        return math.log(4 * self.bound) - 2 * (u.abs() + F.softplus(-2 * u.abs()))

    def cell_edges(self, cells: int) -> Tensor:
        """The ``cells`` + 1 edges that cut the range into cells of equal weight for the entropy, in float64."""
        return torch.linspace(*self.range, cells + 1, dtype=torch.float64)

    def matrix(self, value: Tensor) -> Tensor:
        """The matrix of the pose in which only this primitive differs from the identity, ``(..., 3, 3)``."""
        return compose(Pose.of(**{self.name: value}))


@dataclass(frozen=True)
class Rotation(Primitive):
    """θ = bound · tanh u, clockwise. A bound that is π but for its rounding is the full circle.

    >>> Rotation(bound=3.1416).range
    (-3.141592653589793, 3.141592653589793)
    """

    bound: float = math.pi

    name = "rotation"
    unit = "rad"
    identity = 0.0
    largest_bound = math.pi

    def __post_init__(self) -> None:
        if abs(self.bound - math.pi) < NEARLY_PI:
            object.__setattr__(self, "bound", math.pi)
        super().__post_init__()

    @property
    def full_circle(self) -> bool:
        """Whether every angle is reached, so that the two ends of the range are the same angle."""
        return self.bound == math.pi


@dataclass(frozen=True)
class Scale(Primitive):
    """s = bound^(−tanh u), from ``bound`` to 1/bound: smaller and larger are both reached, the identity in the middle.

    >>> Scale(bound=0.5).squash(torch.tensor([-100.0, 0.0, 100.0]))
    tensor([0.5000, 1.0000, 2.0000])
    """

    bound: float = 0.75

    name = "scale"
    unit = "×"
    identity = 1.0
    largest_bound = 0.999

    @property
    def range(self) -> tuple[float, float]:
        return self.bound, 1 / self.bound

    def cell_edges(self, cells: int) -> Tensor:
        low, high = self.range
        return torch.logspace(math.log(low), math.log(high), cells + 1, base=math.e, dtype=torch.float64)

    def squash(self, u: Tensor) -> Tensor:
        return torch.exp(-math.log(self.bound) * torch.tanh(u))

    def unsquash(self, value: Tensor) -> Tensor:
        logarithm = torch.log(value.clamp_min(0))  # of less there is none
        return torch.atanh((-logarithm / math.log(self.bound)).clamp(-1, 1))  # rounding at the ends gave NaN

    def log_slope(self, u: Tensor) -> Tensor:
        logarithm = -math.log(self.bound)
        tanh_slope = math.log(4 * logarithm) - 2 * (u.abs() + F.softplus(-2 * u.abs()))
        return logarithm * torch.tanh(u) + tanh_slope


@dataclass(frozen=True)
class OneSidedScale(Scale):
    """The paper's scale, s = 1 − (1 − bound) · sigmoid u: from ``bound`` to 1, with the identity only in the limit.

    A fresh network sits at u = −4, which is 0.9955 for the paper's bound of 0.75.

    >>> OneSidedScale().squash(torch.tensor([-100.0, 0.0, 100.0]))
    tensor([1.0000, 0.8750, 0.7500])
    """

    start = -4.0
    rising = False

    @property
    def range(self) -> tuple[float, float]:
        return self.bound, 1.0

    def squash(self, u: Tensor) -> Tensor:
        return 1 - (1 - self.bound) * torch.sigmoid(u)

    def unsquash(self, value: Tensor) -> Tensor:
        return torch.logit(((1 - value) / (1 - self.bound)).clamp(0, 1))  # as above

    def log_slope(self, u: Tensor) -> Tensor:
        return math.log(1 - self.bound) + F.logsigmoid(u) + F.logsigmoid(-u)


@dataclass(frozen=True)
class Shear(Primitive):
    """h = bound · tanh u, the horizontal shift for each unit of height; the default is the paper's π / 4.

    >>> Shear().matrix(torch.tensor(0.2))[0]
    tensor([1.0000, 0.2000, 0.0000])
    """

    bound: float = math.pi / 4

    name = "shear"
    unit = "h"
    identity = 0.0
    largest_bound = math.pi


@dataclass(frozen=True)
class Translation(Primitive):
    """t = bound · tanh u for x and y, in units of half the shorter side: 1/8 is a sixteenth of that side.

    >>> Translation().squash(torch.tensor([100.0, 0.0]))
    tensor([0.1250, 0.0000])
    """

    bound: float = 1 / 8

    name = "translation"
    unit = "half side"
    identity = 0.0
    components = 2
    largest_bound = 1.0


@dataclass(frozen=True)
class Reflection(Primitive):
    """r = sign u, with a straight-through gradient of 1 for |u| ≤ 1. It starts at u = ½, safely on the +1 side.

    >>> Reflection().squash(torch.tensor([-0.1, 0.0, 2.0])).tolist()
    [-1.0, 1.0, 1.0]
    """

    bound: float = 1.0

    name = "reflection"
    unit = "±1"
    identity = 1.0
    start = 0.5
    largest_bound = 1.0

    def __post_init__(self) -> None:
        if self.bound != 1.0:
            raise ValueError(f"Reflection(bound={self.bound!r}): a reflection is +1 or −1 and takes no other bound")

    def squash(self, u: Tensor) -> Tensor:
        """+1 for u ≥ 0, else −1; never 0, which would make the matrix singular."""
        sign = torch.where(u < 0, -1.0, 1.0).to(u.dtype)
        through = torch.where(u.abs() > 1, 0.0, u)  # not clamp: its gradient at ±1 differs between torch versions
        return through + (sign - through).detach()

    def unsquash(self, value: Tensor) -> Tensor:
        raise TypeError("a reflection has two values and no density: ask its posterior for the probability of each")

    def log_slope(self, u: Tensor) -> Tensor:
        return self.unsquash(u)


PRIMITIVES: dict[str, Callable[..., Primitive]] = {
    kind.name: kind for kind in (Rotation, Scale, Shear, Translation, Reflection)
}


def as_primitives(wanted: Iterable[str | Primitive]) -> tuple[Primitive, ...]:
    """Primitives from their names, or as given, in the order of the decomposition, each at most once.

    >>> [p.name for p in as_primitives(("scale", "rotation"))]
    ['rotation', 'scale']
    """
    if isinstance(wanted, str):
        wanted = (wanted,)
    found: dict[str, Primitive] = {}
    for item in wanted:
        if isinstance(item, str) and item not in PRIMITIVES:
            raise ValueError(f"unknown primitive {item!r}; there are {', '.join(PRIMITIVES)}")
        if not isinstance(item, str | Primitive):
            raise TypeError(f"a primitive is a name or a Primitive, got {item!r}")
        primitive = PRIMITIVES[item]() if isinstance(item, str) else item
        if primitive.name in found:
            raise ValueError(f"{primitive.name} is named twice; give each primitive once")
        found[primitive.name] = primitive
    return tuple(found[name] for name in PRIMITIVES if name in found)
