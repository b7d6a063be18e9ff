"""What the network believes about one primitive: the interface that every family fills in.

A posterior is made from the numbers that a head of the network predicts (``raw``), for a batch at once. Values have
shape ``(B,)``, or ``(B, 2)`` for a translation; views and samples have their own axis after the batch.

The entropy is that of the bounded variable on a fixed grid, over its maximum, so that it compares across families:
0 is certain, 1 is uniform. Rotations over the full circle have 36 cells centred on multiples of 10°, other ranges 37
cells with the identity in the middle one, a reflection two.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.geometry import Primitive, Reflection, Rotation
from tokenstn.geometry.constants import constant

CIRCLE_CELLS = 36
INTERVAL_CELLS = 37

# where random numbers come from: torch's own, a generator, or a function from a shape (B, …) to numbers in (0, 1)
RandomSource = torch.Generator | Callable[[tuple[int, ...]], Tensor] | None


@dataclass(frozen=True)
class Candidates:
    """The most probable values of one primitive, best first: ``values (B, n[, 2])``, ``masses (B, n)``, sum ≤ 1.

    >>> from tokenstn.posteriors import Gaussian
    >>> Gaussian(Rotation(), torch.zeros(2, 2)).candidates(3).masses          # one mode, one candidate
    tensor([[1.],
            [1.]])
    """

    values: Tensor
    masses: Tensor


class Posterior(ABC):
    """A belief about one primitive for a batch of B images.

    Args:
        primitive: what the belief is about.
        raw: ``(B, outputs(primitive))``, as a head predicts it; used in fp32 at least.

    >>> from tokenstn.posteriors import Gaussian
    >>> belief = Gaussian(Rotation(), torch.tensor([[0.2, -1.0]]))            # one image
    >>> belief.sample(5).shape, belief.log_prob(torch.tensor([0.5])).shape, bool(belief.entropy() < 0.5)
    (torch.Size([1, 5]), torch.Size([1]), True)
    """

    def __init__(self, primitive: Primitive, raw: Tensor) -> None:
        if raw.shape[-1] != self.outputs(primitive):
            raise ValueError(
                f"a {type(self).__name__} posterior of {primitive.name} is made from {self.outputs(primitive)} "
                f"numbers, got {raw.shape[-1]}"
            )
        self.primitive = primitive
        self.raw = raw if raw.dtype == torch.float64 else raw.float()

    @classmethod
    @abstractmethod
    def outputs(cls, primitive: Primitive) -> int:
        """How many numbers a head predicts for this primitive."""

    @classmethod
    def reached(cls, primitive: Primitive) -> Primitive:
        """The primitive with the range that such a belief can reach: what lies beyond is impossible to it."""
        return primitive

    @classmethod
    @abstractmethod
    def initial(cls, primitive: Primitive) -> Tensor:
        """The raw numbers of a fresh network, ``(outputs,)``: the best pose is the identity."""

    @abstractmethod
    def best(self) -> Tensor:
        """The most likely value, ``(B,)`` or ``(B, 2)``."""

    @abstractmethod
    def candidates(self, n: int, blur: float = 0.0) -> Candidates:
        """At most n most probable values with their masses; the first is ``best()``.

        blur: by how many radians (standard deviation) the belief about an angle is widened first, where it has more
        than one candidate; the values near the best one then get more of the mass.
        """

    @abstractmethod
    def sample(self, n: int, generator: RandomSource = None) -> Tensor:
        """n random values, ``(B, n)`` or ``(B, n, 2)``."""

    @abstractmethod
    def log_prob(self, value: Tensor) -> Tensor:
        """ln density of values in the primitive's unit (ln probability for a reflection).

        ``(B,)`` → ``(B,)``, or N values for each image, ``(B, N)`` → ``(B, N)``; a translation has a last axis of two.
        """

    @abstractmethod
    def cdf(self, value: Tensor) -> Tensor:
        """The probability below each of E values ``(E,)``, for every component: ``(B, components, E)``.

        Below the range it is 0, above it 1.
        """

    @abstractmethod
    def spread(self) -> Tensor:
        """Standard deviation of the bounded variable in the primitive's unit, ``(B,)``; circular for rotation."""

    @abstractmethod
    def kl(self) -> Tensor:
        """KL divergence to the prior around the detached mean, ``(B,)``: it acts on the uncertainty only."""

    def entropy(self) -> Tensor:
        """Entropy of the bounded variable on the fixed grid over its maximum, ``(B,)``, from 0 to 1."""
        masses = self.cell_masses().clamp_min(0)
        # not xlogy, whose gradient at 0 is NaN in torch 2.11
        entropy = -(masses * torch.log(masses.clamp_min(torch.finfo(masses.dtype).tiny))).sum(-1)
        return (entropy.mean(-1) / math.log(masses.shape[-1])).clamp(0, 1)

    def cell_masses(self) -> Tensor:
        """The probability of each cell of the entropy's grid, ``(B, components, cells)``; each row sums to 1."""
        primitive = self.primitive
        if isinstance(primitive, Reflection):
            negative = self.cdf(self.raw.new_zeros(1))
            return torch.cat((negative, 1 - negative), -1)
        if isinstance(primitive, Rotation) and primitive.full_circle:
            # the cell around ±π is what the others leave
            inside = self.cdf(constant(_circle_edges, like=self.raw)).diff(dim=-1)
            return torch.cat((1 - inside.sum(-1, keepdim=True), inside), -1)
        inner = self.cdf(constant(_inner_edges, primitive, like=self.raw))
        return torch.cat((torch.zeros_like(inner[..., :1]), inner, torch.ones_like(inner[..., :1])), -1).diff(dim=-1)


def _circle_edges(device: torch.device) -> Tensor:
    """Between cells centred on k · 10°, ``(36,)``."""
    half_cell = math.pi / CIRCLE_CELLS
    return torch.linspace(half_cell - math.pi, math.pi - half_cell, CIRCLE_CELLS, dtype=torch.float64, device=device)


def _inner_edges(primitive: Primitive, device: torch.device) -> Tensor:
    """Between the cells of a primitive's range, ``(36,)``."""
    return primitive.cell_edges(INTERVAL_CELLS)[1:-1].to(device)


def largest(masses: Tensor, n: int, first: Tensor) -> Tensor:
    """The places of the n largest of ``masses (B, m)``, with the place ``first (B,)`` in front: ``(B, n)``.

    Ties go to the earlier place, so that the n largest are always among the n + 1 largest. A stable sort would do the
    same, but has no counterpart in ONNX.
    """
    place = torch.arange(masses.shape[1], device=masses.device)
    tilted = masses * (1 - 1e-6 * place)
    return torch.where(place == first.unsqueeze(1), torch.inf, tilted).topk(n, 1).indices


def random_uniform(shape: tuple[int, ...], like: Tensor, source: RandomSource) -> Tensor:
    """Uniform numbers strictly inside (0, 1) from a source; a generator draws on its own device."""
    if source is None or isinstance(source, torch.Generator):
        device = like.device if source is None else source.device
        numbers = torch.rand(shape, dtype=like.dtype, device=device, generator=source)
    else:
        numbers = source(shape)
    return numbers.clamp(2**-24, 1 - 2**-24).to(like)
