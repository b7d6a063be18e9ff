"""P-STN: a spatial transformer on pixels whose pose is drawn from a posterior, and the answers averaged over draws.

After "Probabilistic Spatial Transformer Networks" (Schwöbel, Warburg, Jørgensen, Madsen and Hauberg, 2022). A Gamma
posterior on the precision makes each parameter Student's t with 2a = 2 degrees of freedom and scale √(b / a), a = 1,
b = softplus of a head; its KL is a (ln b − ln b₀) + a (b₀ / b − 1) with b₀ = 1, and there is none on μ. One draw in
training, ten in testing, log-mean-exp over them. ``PSTNGauss`` is the same network with u ~ N(μ, b) and KL[N(μ, b) ‖
N(μ, 1)] = ½ (b − 1 − ln b).

Different from the publication: the shared ConvNet of ``pixels``; the parameters are θ, s, h and t, where it has no
shear; the weight of the KL is fixed, where it is annealed. With two degrees of freedom the variance is infinite: a few
draws in a thousand turn the image by any angle, which costs upright accuracy, and is the method.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tokenstn.baselines.base import CommonOptions
from tokenstn.baselines.belief import Belief, Sampling
from tokenstn.baselines.head_stn import HeadSTN
from tokenstn.baselines.stn import AFFINE
from tokenstn.geometry import Primitive, Rotation, wrap_angle
from tokenstn.posteriors import Gaussian, Posterior, RandomSource, Student, best_pose, random_poses
from tokenstn.posteriors.base import INTERVAL_CELLS
from tokenstn.posteriors.location_scale import QUANTILES, LocationScale

TURNS = 4  # each way around the circle that still add to a cell's mass


class _Unbounded(LocationScale):
    """What changes when a primitive has no bounds: an angle goes around the circle, other values leave their range."""

    def cdf(self, value: Tensor) -> Tensor:
        if not isinstance(self.primitive, Rotation):
            return super().cdf(value)
        turns = 2 * math.pi * torch.arange(-TURNS, TURNS + 1, dtype=value.dtype, device=value.device)
        centre, width = wrap_angle(self.centre)[..., None, None], self.width[..., None, None]
        below, before = (self.standard_cdf((v + turns - centre) / width) for v in (value[:, None], -math.pi))
        return (below - before).sum(-1)

    def cell_masses(self) -> Tensor:
        if isinstance(self.primitive, Rotation):
            return super().cell_masses()
        inside = self.cdf(self.primitive.cell_edges(INTERVAL_CELLS).to(self.raw)).diff(dim=-1)
        # what lies outside of the range says nothing about where inside: heaped up at its ends it would look certain
        return inside + (1 - inside.sum(-1, keepdim=True)) / INTERVAL_CELLS

    def spread(self) -> Tensor:
        if isinstance(self.primitive, Rotation):
            return super().spread()
        middles = (torch.arange(QUANTILES, dtype=self.raw.dtype, device=self.raw.device) + 0.5) / QUANTILES
        z = self.standard_quantile(middles)
        values = self.primitive.squash(self.centre.unsqueeze(-1) + self.width.unsqueeze(-1) * z)
        # the deviation of the bounded variable, as for every other method; that of Student's t would be infinite
        return values.clamp(*self.primitive.range).var(-1, correction=0).mean(-1).sqrt()

    def _unsquash(self, value: Tensor) -> Tensor:
        return self.primitive.unsquash(value)  # nothing is infinite at the ends of the range


class GammaPosterior(_Unbounded, Student):
    """Student's t of an unbounded primitive, with the KL of the Gamma on its precision."""


class GaussPosterior(_Unbounded, Gaussian):
    """N(μ, b) of an unbounded primitive, b = softplus of the head."""

    @classmethod
    def initial_width(cls) -> float:
        return Student.initial_width()

    @property
    def width(self) -> Tensor:
        return torch.sqrt(F.softplus(self.raw_width))

    def kl(self) -> Tensor:
        b = F.softplus(self.raw_width)
        return 0.5 * (b - 1 - torch.log(b)).sum(-1)


@dataclass(frozen=True)
class PosteriorBelief(Belief):
    """A belief that is drawn from; posteriors: by primitive."""

    posteriors: Mapping[str, Posterior] = field(default_factory=dict)


class PSTNGamma(HeadSTN):
    """P-STN with Student's t.

    Args:
        primitives: any but reflection.
        kl_weight: of the KL; from 1e-5 to 1e-3 in the publication.
        usual_views: how many poses are drawn in testing. ``views=1`` looks at the mean.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> PSTNGamma(classifier).eval()(torch.rand(2, 1, 12, 12)).views.weights.shape
    torch.Size([2, 10])
    """

    family = GammaPosterior

    def __init__(
        self,
        classifier: nn.Module | str,
        *,
        primitives: Iterable[str | Primitive] = AFFINE,
        kl_weight: float = 1e-4,
        usual_views: int = 10,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(classifier, primitives=primitives, **common)
        if kl_weight < 0 or usual_views < 1:
            raise ValueError(f"kl_weight={kl_weight}, usual_views={usual_views}: not below 0, and at least 1")
        self.kl_weight, self.usual_views = kl_weight, usual_views

    def localize(self, images: Tensor) -> PosteriorBelief:
        posteriors = self.posteriors(images)
        best = best_pose(posteriors).matrix

        def draw(n: int, sampling: Sampling, noise: RandomSource) -> Tensor:
            if n == 1 and sampling == "probable":
                return best.unsqueeze(1)
            return random_poses(posteriors, n, noise)[0].matrix

        entropy = {name: posterior.entropy() for name, posterior in posteriors.items()}
        spread = {name: posterior.spread() for name, posterior in posteriors.items()}
        return PosteriorBelief(best, draw, entropy, spread, posteriors)

    def regularisers(self, belief: Belief, upright: Tensor | None) -> dict[str, Tensor]:
        assert isinstance(belief, PosteriorBelief)
        divergence = torch.stack([posterior.kl().mean() for posterior in belief.posteriors.values()]).sum()
        return {"kl": self.kl_weight * divergence}


class PSTNGauss(PSTNGamma):
    """P-STN with a Gaussian.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> sorted(PSTNGauss(classifier).eval()(torch.rand(2, 1, 12, 12)).entropy)[0]
    'rotation'
    """

    family = GaussPosterior
