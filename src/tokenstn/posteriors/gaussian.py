"""The paper's Gaussian posterior: u ~ N(μ, σ²) with σ = exp(½ α tanh ν − ½ β), so that ln σ² ∈ [−α−β, α−β].

The KL goes to N(μ, 1) with the mean detached, which leaves ½ (σ² − 1 − ln σ²). For a rotation both are wrapped around
the circle, u being read as an angle, and the KL is a quadrature over it. A reflection has none.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from tokenstn.geometry import Reflection, Rotation
from tokenstn.geometry.constants import numbers
from tokenstn.posteriors.location_scale import MIDDLES, LocationScale

ALPHA = 6.0
BETA = 4.0
LEGENDRE = tuple(tuple(a.tolist()) for a in np.polynomial.legendre.leggauss(64))  # nodes and weights on [−1, 1]
NODES = tuple(map(NormalDist().inv_cdf, MIDDLES))
WRAPS = 4  # turns each way that still add to a wrapped density; σ ≤ e^((α−β)/2) = 2.7


class Gaussian(LocationScale):
    """N(μ, σ²) before the squashing, with the paper's bounded log-variance.

    >>> from tokenstn.geometry import Scale
    >>> belief = Gaussian(Scale(), torch.tensor([[0.0, 0.0]]))
    >>> belief.best(), belief.width.log()
    (tensor([1.]), tensor([[-2.]]))
    """

    @classmethod
    def initial_width(cls) -> float:
        return 0.0

    @property
    def width(self) -> Tensor:
        return torch.exp(0.5 * ALPHA * torch.tanh(self.raw_width) - 0.5 * BETA)

    @staticmethod
    def standard_cdf(z: Tensor) -> Tensor:
        return torch.special.ndtr(z)

    @classmethod
    def standard_log_cdf(cls, z: Tensor) -> Tensor:
        return torch.special.log_ndtr(z)

    @staticmethod
    def standard_quantile(probability: Tensor) -> Tensor:
        return torch.special.ndtri(probability)

    @staticmethod
    def standard_quantiles() -> tuple[float, ...]:
        return NODES

    @staticmethod
    def standard_log_density(z: Tensor) -> Tensor:
        return -0.5 * z.square() - 0.5 * math.log(2 * math.pi)

    def kl(self) -> Tensor:
        if isinstance(self.primitive, Reflection):
            return torch.zeros_like(self.raw[..., 0])
        if isinstance(self.primitive, Rotation):
            return wrapped_kl(self.width.squeeze(-1))
        return 0.5 * (self.width.square() - 1 - 2 * torch.log(self.width)).sum(-1)


def wrapped_log_density(angle: Tensor, width: Tensor) -> Tensor:
    """ln of the density of N(0, width²) wrapped around the circle, at angles in [−π, π]; shapes broadcast."""
    turns = 2 * math.pi * torch.arange(-WRAPS, WRAPS + 1, dtype=angle.dtype, device=angle.device)
    z = (angle.unsqueeze(-1) + turns) / width.unsqueeze(-1)
    return torch.logsumexp(-0.5 * z.square(), -1) - torch.log(width) - 0.5 * math.log(2 * math.pi)


def wrapped_kl(width: Tensor) -> Tensor:
    """KL[WN(μ, width²) ‖ WN(μ, 1)] for any common μ, by Gauss–Legendre quadrature where the density lives."""
    nodes, weights = (numbers(a, like=width) for a in LEGENDRE)
    reach = (10 * width.unsqueeze(-1)).clamp(max=math.pi)
    angle = reach * nodes
    log_density = wrapped_log_density(angle, width.unsqueeze(-1))
    log_prior = wrapped_log_density(angle, torch.ones_like(width).unsqueeze(-1))
    return (weights * reach * log_density.exp() * (log_density - log_prior)).sum(-1)
