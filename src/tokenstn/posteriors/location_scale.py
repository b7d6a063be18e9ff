"""Posteriors of the form u = μ + σ z with a standard z, squashed into the primitive's range.

``gaussian`` and ``student`` differ in the standard distribution of z, in how σ comes out of the network, and in their
KL; everything else is written here once. The centre μ gives the best value and, for continuous primitives, the one
most probable view; a reflection has two values with the probabilities P(u ≥ 0) and P(u < 0).
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from tokenstn.geometry import Primitive, Reflection, Rotation, wrap_angle
from tokenstn.geometry.constants import numbers
from tokenstn.posteriors.base import Candidates, Posterior, RandomSource, random_uniform

QUANTILES = 256  # nodes of the mean over z in the spread
MIDDLES = tuple((k + 0.5) / QUANTILES for k in range(QUANTILES))


class LocationScale(Posterior):
    """u = μ + σ z, one independent u for each component; ``raw`` is (μ, width) with ``components`` numbers each."""

    @classmethod
    def outputs(cls, primitive: Primitive) -> int:
        return 2 * primitive.components

    @classmethod
    def initial(cls, primitive: Primitive) -> Tensor:
        centre = torch.full((primitive.components,), primitive.start)
        return torch.cat((centre, torch.full_like(centre, cls.initial_width())))

    @classmethod
    @abstractmethod
    def initial_width(cls) -> float:
        """The raw width of a fresh network."""

    @property
    def centre(self) -> Tensor:
        """μ, ``(B, components)``."""
        return self.raw[..., : self.primitive.components]

    @property
    def raw_width(self) -> Tensor:
        """What the network predicts for the width, ``(B, components)``."""
        return self.raw[..., self.primitive.components :]

    @property
    @abstractmethod
    def width(self) -> Tensor:
        """σ, ``(B, components)``."""

    @staticmethod
    @abstractmethod
    def standard_cdf(z: Tensor) -> Tensor:
        """P(Z < z)."""

    @classmethod
    def standard_log_cdf(cls, z: Tensor) -> Tensor:
        """ln P(Z < z)."""
        return torch.log(cls.standard_cdf(z))

    @staticmethod
    @abstractmethod
    def standard_quantile(probability: Tensor) -> Tensor:
        """The z with P(Z < z) = probability."""

    @staticmethod
    @abstractmethod
    def standard_quantiles() -> tuple[float, ...]:
        """z in the middle of each of ``QUANTILES`` equal shares: numbers, for ONNX has no quantiles of a Gaussian."""

    @staticmethod
    @abstractmethod
    def standard_log_density(z: Tensor) -> Tensor:
        """ln p(z)."""

    def best(self) -> Tensor:
        return self._without_component_axis(self.primitive.squash(self.centre))

    def candidates(self, n: int, blur: float = 0.0) -> Candidates:
        best = self.best().unsqueeze(1)
        if not isinstance(self.primitive, Reflection):
            return Candidates(best, torch.ones_like(self.centre[..., :1]))
        likely = self.standard_cdf((self.centre / self.width).abs())
        if n == 1:
            return Candidates(best, likely)
        return Candidates(torch.cat((best, -best), 1), torch.cat((likely, 1 - likely), 1))

    def sample(self, n: int, generator: RandomSource = None) -> Tensor:
        batch, components = self.centre.shape
        z = self.standard_quantile(random_uniform((batch, n, components), self.centre, generator))
        u = self.centre.unsqueeze(1) + self.width.unsqueeze(1) * z
        return self._without_component_axis(self.primitive.squash(u))

    def log_prob(self, value: Tensor) -> Tensor:
        value = value if self.primitive.components > 1 else value.unsqueeze(-1)
        # values may have axes between the batch and the components: several for each image
        shape = (len(self.raw), *(1,) * (value.ndim - 2), self.primitive.components)
        centre, width = self.centre.reshape(shape), self.width.reshape(shape)
        if isinstance(self.primitive, Reflection):
            return self.standard_log_cdf(value * centre / width).sum(-1)
        u = self._unsquash(value)
        density = self.standard_log_density((u - centre) / width) - torch.log(width) - self.primitive.log_slope(u)
        return density.sum(-1)

    def cdf(self, value: Tensor) -> Tensor:
        u = value if isinstance(self.primitive, Reflection) else self.primitive.unsquash(value)
        below = self.standard_cdf((u - self.centre.unsqueeze(-1)) / self.width.unsqueeze(-1))
        return below if self.primitive.rising else 1 - below

    def spread(self) -> Tensor:
        if isinstance(self.primitive, Reflection):
            chance = self.standard_cdf(self.centre / self.width)
            variance = 4 * chance * (1 - chance)
            return torch.sqrt(variance.clamp_min(torch.finfo(variance.dtype).tiny)).squeeze(-1)
        z = numbers(self.standard_quantiles(), like=self.raw)
        values = self.primitive.squash(self.centre.unsqueeze(-1) + self.width.unsqueeze(-1) * z)
        if isinstance(self.primitive, Rotation):
            around = values - self.primitive.squash(self.centre).unsqueeze(-1)
            return circular_deviation(
                (2 * torch.sin(around / 2).square()).mean(-1), torch.sin(around).mean(-1)
            ).squeeze(-1)
        variance = (values - values.mean(-1, keepdim=True)).square().mean(-1).mean(-1)
        return torch.sqrt(variance.clamp_min(torch.finfo(variance.dtype).tiny))

    def _unsquash(self, value: Tensor) -> Tensor:
        """u of a value, kept a millionth of the range away from its ends, where u is infinite."""
        primitive = self.primitive
        if isinstance(primitive, Rotation) and primitive.full_circle:
            value = wrap_angle(value)
        low, high = primitive.range
        margin = 1e-6 * (high - low)
        return primitive.unsquash(value.clamp(low + margin, high - margin))

    def _without_component_axis(self, values: Tensor) -> Tensor:
        return values if self.primitive.components > 1 else values.squeeze(-1)


def circular_deviation(versine: Tensor, sine: Tensor) -> Tensor:
    """Circular standard deviation √(−2 ln R) in radians from the means of 1 − cos and of sin.

    The angles may be measured from anywhere; measured from their middle, a small deviation keeps its digits.
    """
    eps, tiny = torch.finfo(versine.dtype).eps, torch.finfo(versine.dtype).tiny
    below_one = (versine * (versine - 2) + sine.square()).clamp_min(eps - 1)  # R² − 1
    return torch.sqrt((-torch.log1p(below_one)).clamp_min(tiny))
