"""The deterministic posterior: the squashed μ, nothing else.

A point has no density. Its ``log_prob`` is that of a bell of a fixed width around it, so that supervising the pose is
least squares; entropy, spread and KL are zero, and every sample is the point itself.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tokenstn.geometry import Primitive, Reflection, Rotation, wrap_angle
from tokenstn.posteriors.base import Candidates, Posterior, RandomSource

BELL = 0.05  # width of the bell, as a share of the primitive's range


class Point(Posterior):
    """All mass on one value; ``raw`` is u.

    >>> from tokenstn.geometry import Rotation
    >>> Point(Rotation(), torch.zeros(1, 1)).best()
    tensor([0.])
    """

    @classmethod
    def outputs(cls, primitive: Primitive) -> int:
        return primitive.components

    @classmethod
    def initial(cls, primitive: Primitive) -> Tensor:
        return torch.full((primitive.components,), primitive.start)

    def best(self) -> Tensor:
        values = self.primitive.squash(self.raw)
        return values if self.primitive.components > 1 else values.squeeze(-1)

    def candidates(self, n: int, blur: float = 0.0) -> Candidates:
        return Candidates(self.best().unsqueeze(1), torch.ones_like(self.raw[..., :1]))

    def sample(self, n: int, generator: RandomSource = None) -> Tensor:
        best = self.best().unsqueeze(1)
        return best.expand(best.shape[0], n, *best.shape[2:])

    def log_prob(self, value: Tensor) -> Tensor:
        primitive = self.primitive
        # values may have axes after the batch: several for each image
        extra = (1,) * (value.ndim - (2 if primitive.components > 1 else 1))
        if isinstance(primitive, Reflection):
            # a soft step in u, so that a target on the other side still pulls
            return F.logsigmoid(value * self.raw.reshape(len(self.raw), *extra) / BELL)
        low, high = primitive.range
        width = BELL * (high - low)
        best = self.best()
        error = value - best.reshape(len(best), *extra, *best.shape[1:])
        if isinstance(primitive, Rotation) and primitive.full_circle:
            error = wrap_angle(error)
        density = -0.5 * (error / width).square() - math.log(width) - 0.5 * math.log(2 * math.pi)
        return density if primitive.components == 1 else density.sum(-1)

    def cdf(self, value: Tensor) -> Tensor:
        return (self.primitive.squash(self.raw).unsqueeze(-1) < value).to(self.raw.dtype)

    def spread(self) -> Tensor:
        return torch.zeros_like(self.raw[..., 0])

    def kl(self) -> Tensor:
        return torch.zeros_like(self.raw[..., 0])
