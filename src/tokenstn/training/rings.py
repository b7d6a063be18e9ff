"""How a ring of 36 logits is taught to follow a turn when nobody knows which way is up.

Three terms, each with its own job:

- the shape of the rings: the circular cross-correlation of the two rings, layer-normalised, times 8, are logits over
  the 36 shifts, and the true shift is their label;
- what all images have in common: at random orientations nothing is, so the mean ring of the batch is taken off before
  the correlation, and driven to flat. Without this every image settles on one and the same ring, whose correlation
  with itself peaks at no turn, and the loss stays on that plateau (measured: 8 nats, for as long as we looked);
- the sharpness of the rings: normalisation makes the first term blind to it, so it has a likelihood of its own, that
  of the true shift under two independent beliefs, with the shapes held fixed. A proper score: sharp and calibrated.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, distributed
from torch.distributed.nn.functional import all_reduce

from tokenstn.posteriors import Circular
from tokenstn.posteriors.circular import BINS, MASKED, STEP

TEMPERATURE = 8.0  # of the correlation: two equal rings, one bin high, then name their shift with 99 %
EPSILON = 0.01  # of the layer normalisation: a ring flatter than 0.1 is undecided, as that of a round object should be
STRAY = 1e-4  # share of turns that may be anything: bounded rings cannot explain every turn
FLATTEST = 0.1  # standard deviation of a ring's logits below which nothing would sharpen it again


def ring_loss(first: Circular, second: Circular, turn: Tensor) -> Tensor:
    """The sum of the three terms, a scalar; ``turn (B,)`` in radians leads from the first belief to the second.

    The mean ring is that of the batch, over all processes, so a batch holds more than a few images.
    """
    with torch.autocast(first.raw.device.type, enabled=False):  # half precision has no FFT of 36
        inside = first.allowed
        rings = torch.stack([_centred(belief.raw, inside) for belief in (first, second)])
        common = _over_processes(rings.mean((0, 1)))
        own = rings - common
        logits = shift_logits(own[0], own[1], inside)
        bins, weights = _split(turn)
        shape = -(weights * torch.log_softmax(logits, -1).gather(-1, bins)).sum(-1).mean()
        # of a few images something is always in common: in proportion to large rings, so that it does not blunt them
        size = _over_processes(rings.square().mean().detach()).clamp_min(1.0)
        return shape + common.square().mean() / size + _sharpness_loss(own, inside, bins, weights)


def shift_logits(first: Tensor, second: Tensor, inside: Tensor | None = None) -> Tensor:
    """Logits of the turn from one ring of logits to another, ``(B, 36)``; entry k is for a turn of k · 10°.

    A correlation coefficient, −1 to 1, times 8. ``inside (36,)`` says which bins count; all when None.

    >>> ring = torch.randn(1, 36, generator=torch.Generator().manual_seed(0))
    >>> shift_logits(ring, ring.roll(5, -1)).argmax().item()
    5
    """
    inside = torch.ones(BINS, dtype=torch.bool, device=first.device) if inside is None else inside
    count = inside.sum()
    waves = []
    for ring in (first, second):
        ring = _centred(ring, inside)
        ring = ring * torch.rsqrt(ring.square().sum(-1, keepdim=True) / count + EPSILON)
        waves.append(torch.fft.rfft(ring, dim=-1))
    return TEMPERATURE * torch.fft.irfft(waves[0].conj() * waves[1], n=BINS, dim=-1) / count


def _sharpness_loss(rings: Tensor, inside: Tensor, bins: Tensor, weights: Tensor) -> Tensor:
    """−ln Σ_k p₁(k) p₂(k + shift), whose gradient reaches only the size of each ring, not its shape.

    A hinge keeps rings from going entirely flat, as they would while their shapes are still wrong: there the
    likelihood has no slope, and they would not come back.
    """
    size = torch.sqrt(rings.square().sum(-1, keepdim=True) / inside.sum() + 1e-6)
    too_flat = torch.relu(FLATTEST - size).mean()
    fixed = (rings / size).detach() * size
    log_first, log_second = torch.log_softmax(fixed.masked_fill(~inside, MASKED), -1)
    places = torch.arange(BINS, device=bins.device)
    turned = torch.stack([log_second.gather(-1, (places + shift.unsqueeze(-1)) % BINS) for shift in bins.unbind(-1)], 1)
    log_share = torch.logsumexp(log_first.unsqueeze(1) + turned, -1)  # of each of the two shifts
    log_likelihood = torch.logsumexp(log_share + torch.log(weights), -1)
    stray = torch.full_like(log_likelihood, math.log(STRAY / BINS))
    return too_flat - torch.logaddexp(log_likelihood, stray).mean()


def _split(turn: Tensor) -> tuple[Tensor, Tensor]:
    """The two bins nearest to a turn and their linear weights, both ``(B, 2)``."""
    place = torch.remainder(turn, 2 * math.pi) / STEP
    below = place.floor()
    share = place - below
    return torch.stack((below, below + 1), -1).long() % BINS, torch.stack((1 - share, share), -1)


def _centred(ring: Tensor, inside: Tensor) -> Tensor:
    """Minus the mean over the bins inside; 0 outside."""
    return torch.where(inside, ring - (ring * inside).sum(-1, keepdim=True) / inside.sum(), 0.0)


def _over_processes(mean: Tensor) -> Tensor:
    """The mean over the processes of a distributed run; the gradient goes back to all of them."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return mean
    return all_reduce(mean) / distributed.get_world_size()
