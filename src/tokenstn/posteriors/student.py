"""A Gamma hyperprior on the precision: u follows Student's t with 2a = 2 degrees of freedom (P-STN's posterior).

μ and b = softplus(raw) come from the network, a = 1 is fixed, the scale of t is √(b / a). With two degrees of freedom
the distribution and its inverse are closed forms. The KL is that of the hyperprior, KL[Γ(a, b) ‖ Γ(a, b₀)] with b₀ = 1;
there is none on μ and none for a reflection.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tokenstn.geometry import Reflection
from tokenstn.posteriors.location_scale import MIDDLES, LocationScale

A = 1.0
PRIOR_B = 1.0
SMALLEST_B = 1e-8  # a width of 1e-4; below it the KL, and soon b itself, would no longer be numbers
NODES = tuple((2 * p - 1) / math.sqrt(2 * p * (1 - p)) for p in MIDDLES)


class Student(LocationScale):
    """Student's t with two degrees of freedom before the squashing.

    >>> from tokenstn.geometry import Scale
    >>> belief = Student(Scale(), Student.initial(Scale()).unsqueeze(0))
    >>> belief.best(), belief.width.round(decimals=3)
    (tensor([1.]), tensor([[0.1350]]))
    """

    @classmethod
    def initial_width(cls) -> float:
        return -4.0  # b = 0.018, a width of 0.135 as the Gaussian's

    @property
    def b(self) -> Tensor:
        """The rate of the Gamma, ``(B, components)``."""
        return F.softplus(self.raw_width).clamp_min(SMALLEST_B)

    @property
    def width(self) -> Tensor:
        return torch.sqrt(self.b / A)

    @staticmethod
    def standard_cdf(z: Tensor) -> Tensor:
        # written on each side without a difference of nearly equal numbers; z may be infinite
        tail = 1 / (2 + z.square() + z.abs() * torch.sqrt(2 + z.square()))
        return torch.where(z > 0, 1 - tail, tail)

    @staticmethod
    def standard_quantile(probability: Tensor) -> Tensor:
        return (2 * probability - 1) / torch.sqrt(2 * probability * (1 - probability))

    @staticmethod
    def standard_quantiles() -> tuple[float, ...]:
        return NODES

    @staticmethod
    def standard_log_density(z: Tensor) -> Tensor:
        return -1.5 * torch.log1p(z.square() / 2) - 0.5 * math.log(8)

    def kl(self) -> Tensor:
        if isinstance(self.primitive, Reflection):
            return torch.zeros_like(self.raw[..., 0])
        b = self.b
        return (A * (torch.log(b) - math.log(PRIOR_B)) + A * (PRIOR_B / b - 1)).sum(-1)
