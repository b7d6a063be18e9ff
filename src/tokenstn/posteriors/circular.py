"""A belief about the angle as probabilities on a ring of 36 bins: several modes, and no seam at ±π.

The density is piecewise linear, Σ p_k hat((θ − θ_k) / Δ) / Δ with Δ = 10° and the bins at multiples of it. The best
angle is the top of the parabola through the logarithms of the highest bin and its two neighbours. The most probable
views lie on the grid laid through that best angle, so that more views always include the fewer; each carries the
density there times Δ, which sums to 1 around the ring. A belief that is widened for looking by twenty degrees or more
is looked at in steps as wide as that: views of nearly the same angle say nearly the same.

A rotation with a bound below π keeps the bins whose hats lie inside the bound: one between two multiples of 10° is as
good as the lower of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from tokenstn.geometry import Primitive, Rotation, wrap_angle
from tokenstn.geometry.constants import constant
from tokenstn.geometry.one_kernel import one_kernel_for
from tokenstn.posteriors.base import CIRCLE_CELLS, Candidates, Posterior, RandomSource, largest, random_uniform
from tokenstn.posteriors.gaussian import wrapped_log_density
from tokenstn.posteriors.location_scale import circular_deviation

BINS = CIRCLE_CELLS
STEP = 2 * math.pi / BINS
CONCENTRATION = 1.0  # κ of the logits κ cos θ of a fresh network: the identity is best, and little has to be unlearned
MASKED = -1e4  # the logit of a bin outside the bound: its probability is exactly 0 in fp32
NODES_PER_BIN = 8  # of the quadrature in the KL


class Circular(Posterior):
    """Probabilities of 36 angles; ``raw`` are the logits, bin k at k · 10° (the last 18 are the negative angles).

    >>> from tokenstn.geometry import Rotation
    >>> belief = Circular(Rotation(), 9 * torch.cos(bin_angles() - 1.0).unsqueeze(0))
    >>> round(belief.best().item(), 2)
    1.0
    """

    def __init__(self, primitive: Primitive, raw: Tensor) -> None:
        super().__init__(primitive, raw)
        logits = self.raw
        if not _full_circle(primitive):
            logits = logits.masked_fill(~self.allowed, MASKED)
        self.log_masses = torch.log_softmax(logits, -1)

    @classmethod
    def outputs(cls, primitive: Primitive) -> int:
        if not isinstance(primitive, Rotation):
            raise ValueError(f"a circular posterior is for rotation, not for {primitive.name}: use gaussian")
        if primitive.bound < 2 * STEP:
            raise ValueError(
                f"Rotation(bound={primitive.bound:.4g}) is narrower than two bins of a circular posterior "
                f"({2 * STEP:.4g} rad): use posterior='gaussian' for such small angles"
            )
        return BINS

    @classmethod
    def reached(cls, primitive: Primitive) -> Primitive:
        if _full_circle(primitive):
            return primitive
        return replace(primitive, bound=STEP * _bins_to(primitive.bound))

    @classmethod
    def initial(cls, primitive: Primitive) -> Tensor:
        cls.outputs(primitive)  # refuses what has no ring
        return (CONCENTRATION * torch.cos(bin_angles())).float()

    @property
    def angles(self) -> Tensor:
        """The angles of the bins, ``(36,)``; shared by all beliefs: never write into them."""
        return constant(bin_angles, like=self.raw)

    @property
    def allowed(self) -> Tensor:
        """Which bins lie inside the primitive's bound, ``(36,)``."""
        k = torch.arange(BINS, device=self.raw.device)
        return torch.minimum(k, BINS - k) <= self._inside // 2

    @property
    def _inside(self) -> int:
        """How many bins lie inside the bound, hats included."""
        if _full_circle(self.primitive):
            return BINS
        return 2 * _bins_to(self.primitive.bound) - 1

    def best(self) -> Tensor:
        if _full_circle(self.primitive) and one_kernel_for(self.raw):
            from tokenstn.posteriors.fused_peak import fused_peak

            return fused_peak(self.raw)
        top, offset = self._top()
        return wrap_angle(self.angles[top] + STEP * offset)

    def candidates(self, n: int, blur: float = 0.0) -> Candidates:
        top, offset = self._top()
        masses = self.log_masses.exp()
        if blur:
            # not a matrix product, which autocast would round to half precision
            masses = (masses.unsqueeze(-1) * constant(_blurring, blur, like=masses)).sum(-2)
            if not _full_circle(self.primitive):
                masses = masses.masked_fill(~self.allowed, 0.0)
                masses = masses / masses.sum(-1, keepdim=True)
        offset = offset.unsqueeze(-1)
        neighbours = torch.where(offset < 0, masses.roll(1, -1), masses.roll(-1, -1))
        shifted = (1 - offset.abs()) * masses + offset.abs() * neighbours
        step = _apart(blur)
        if step > 1:
            between = (constant(torch.arange, BINS, like=top) - top.unsqueeze(-1)) % step != 0
            shifted = shifted.masked_fill(between, 0.0)
            shifted = shifted / shifted.sum(-1, keepdim=True)
        # the best angle comes first, even where two modes of nearly the same mass trade places on the shifted grid;
        # on a bounded ring only the bins inside have mass, and one more when the shifted grid straddles them
        chosen = largest(shifted, min(n, self._inside // step + 1, BINS // step), first=top)
        angles = wrap_angle(self.angles[chosen] + STEP * offset)
        return Candidates(angles.clamp(-self.primitive.bound, self.primitive.bound), shifted.gather(-1, chosen))

    def sample(self, n: int, generator: RandomSource = None) -> Tensor:
        chosen, first, second = random_uniform((len(self.raw), n, 3), self.raw, generator).unbind(-1)
        below = self.log_masses.detach().exp().cumsum(-1)
        bins = torch.searchsorted(below, chosen * below[:, -1:])
        return wrap_angle(self.angles[bins] + STEP * (first + second - 1))

    def log_prob(self, value: Tensor) -> Tensor:
        place = torch.remainder(value, 2 * math.pi) / STEP
        below = place.floor()
        share = (place - below).clamp(0, 1)
        bins = below.long().flatten(1) if value.ndim > 1 else below.long().unsqueeze(-1)
        lower = self.log_masses.gather(-1, bins % BINS).reshape(value.shape)
        upper = self.log_masses.gather(-1, (bins + 1) % BINS).reshape(value.shape)
        return torch.logaddexp(lower + torch.log1p(-share), upper + torch.log(share)) - math.log(STEP)

    def cdf(self, value: Tensor) -> Tensor:
        # how much of each bin's hat lies below the value, counted from −π around the ring
        value = value.clamp(-math.pi, math.pi)
        turns = 2 * math.pi * torch.arange(-1, 2, dtype=self.raw.dtype, device=self.raw.device)
        centres = (self.angles.unsqueeze(-1) + turns).unsqueeze(-1)
        below = (_hat_cdf((value - centres) / STEP) - _hat_cdf((-math.pi - centres) / STEP)).sum(1)
        return (self.log_masses.exp().unsqueeze(-1) * below).sum(-2, keepdim=True)

    def spread(self) -> Tensor:
        # the characteristic function of a hat is sinc²
        masses, narrowing = self.log_masses.exp(), (math.sin(STEP / 2) / (STEP / 2)) ** 2
        cos = (masses * torch.cos(self.angles)).sum(-1) * narrowing
        sin = (masses * torch.sin(self.angles)).sum(-1) * narrowing
        return circular_deviation(1 - cos, sin)

    def kl(self) -> Tensor:
        """KL of the density to a wrapped Gaussian of one radian around the detached best angle, ``(B,)``."""
        inside = (torch.arange(NODES_PER_BIN, dtype=self.raw.dtype, device=self.raw.device) + 0.5) / NODES_PER_BIN
        nodes = (self.angles.unsqueeze(-1) + STEP * inside).flatten().expand(len(self.raw), -1)
        log_density = self.log_prob(nodes)
        distance = wrap_angle(nodes - self.best().detach().unsqueeze(-1))
        log_prior = wrapped_log_density(distance, torch.ones_like(distance))
        return (log_density.exp() * (log_density - log_prior)).sum(-1) * (STEP / NODES_PER_BIN)

    def _top(self) -> tuple[Tensor, Tensor]:
        """The highest bin ``(B,)`` and the offset of the parabola's top from it, in bins, within ±½."""
        top = self.log_masses.argmax(-1)
        around = constant(_neighbours, like=top)[top]
        heights = self.log_masses.gather(-1, around).unsqueeze(-2)
        bend, slope = (heights * constant(_parabola, like=heights)).sum(-1).unbind(-1)
        offset = (slope / bend.clamp(max=-torch.finfo(bend.dtype).eps)).clamp(-0.5, 0.5)
        if not _full_circle(self.primitive):
            offset = torch.where(self.allowed[around].all(-1), offset, 0.0)
        return top, offset


def bin_angles(device: torch.device | None = None) -> Tensor:
    """The angles of the bins in [−π, π), bin k at k · 10°, exactly symmetric around 0; ``(36,)`` float64."""
    k = torch.arange(BINS, dtype=torch.float64, device=device)
    return STEP * torch.where(k < BINS // 2, k, k - BINS)


def _neighbours(device: torch.device) -> Tensor:
    """Each bin between the one before and the one after it, ``(36, 3)``."""
    k = torch.arange(BINS, device=device)
    return torch.stack(((k - 1) % BINS, k, (k + 1) % BINS), -1)


def _parabola(device: torch.device) -> Tensor:
    """What turns three neighbouring heights into the bend of the parabola through them, and its slope; ``(2, 3)``."""
    return torch.tensor([[1.0, -2.0, 1.0], [0.5, 0.0, -0.5]], device=device)


def _blurring(blur: float, device: torch.device) -> Tensor:
    """What spreads the mass of each bin around it like a Gaussian of ``blur`` radians, ``(36, 36)``; rows sum to 1."""
    angles = bin_angles(device)
    distance = wrap_angle(angles - angles.unsqueeze(-1))
    weights = torch.exp(-0.5 * (distance / blur).square())
    return weights / weights.sum(-1, keepdim=True)


def _apart(blur: float) -> int:
    """How many bins are between two views of a belief that is widened by ``blur`` radians; they close the ring.

    >>> [_apart(math.radians(degrees)) for degrees in (0, 10, 15, 20, 25, 30, 180)]
    [1, 1, 1, 2, 2, 3, 18]
    """
    return max(step for step in range(1, BINS + 1) if BINS % step == 0 and step <= max(1.0, blur / STEP + 1e-6))


def _bins_to(bound: float) -> int:
    """How many bins there are from 0 to a bound."""
    return math.floor(bound / STEP + 1e-6)


def _full_circle(primitive: Primitive) -> bool:
    return isinstance(primitive, Rotation) and primitive.full_circle


def _hat_cdf(x: Tensor) -> Tensor:
    """The integral of the hat function from −1 to x."""
    x = x.clamp(-1, 1)
    return 0.5 + x - 0.5 * x * x.abs()
