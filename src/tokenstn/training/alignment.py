"""Training applies a known pose to each image, so the pose is a label for free.

Absolute, when the data set is upright: minus the log-density of the posterior at the applied pose. It is a proper
score, so it is smallest for a belief that is as sharp as the image allows and no sharper.

Relative, when it is not: each image is moved twice, and the two beliefs must differ by what was done in between. A
turn of the input by φ changes the pose by θ → θ + rφ, where r = ±1 is the reflection of the object, and a zoom
multiplies the scale; other primitives do not stay in the family, so only rotation and scale are asked for.

Both return one scalar for each primitive, the mean over the batch, in nats; the caller weighs and adds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from tokenstn.geometry import Pose, Rotation, Scale, wrap_angle
from tokenstn.posteriors import Circular, Point, Posterior
from tokenstn.training.rings import ring_loss

UNIT = 0.2  # of the range: the error of a difference that costs half a nat


def absolute_alignment(posteriors: Mapping[str, Posterior], pose: Pose) -> dict[str, Tensor]:
    """−ln density of each posterior at the pose that training applied; ``pose`` has batch shape ``(B,)``.

    >>> from tokenstn.geometry import Rotation
    >>> flat = Circular(Rotation(), torch.zeros(1, 36))
    >>> absolute_alignment({"rotation": flat}, Pose.of(rotation=torch.ones(1)))["rotation"].exp()     # 2π
    tensor(6.2832)
    """
    return {
        name: -posterior.log_prob(getattr(pose, name).to(posterior.raw)).mean()
        for name, posterior in posteriors.items()
    }


def relative_alignment(
    first: Mapping[str, Posterior], second: Mapping[str, Posterior], first_pose: Pose, second_pose: Pose
) -> dict[str, Tensor]:
    """How badly two beliefs about the same image, moved in two ways, differ by what was done in between.

    Args:
        first, second: the posteriors of the two moved images; only rotation and scale are looked at.
        first_pose, second_pose: the poses applied to the image, batch shape ``(B,)``.

    A ring of angles is scored by ``rings.ring_loss``; any other posterior by the difference of its best values, in
    least squares, and by the Gaussian likelihood that its spreads give to what is left.
    """
    losses: dict[str, Tensor] = {}
    if "rotation" in first:
        turn = second_pose.rotation - first_pose.rotation
        turn = turn.to(first["rotation"].raw) * _side(first, first_pose)
        losses["rotation"] = _turn_loss(first["rotation"], second["rotation"], turn)
    if "scale" in first:
        zoom = torch.log(second_pose.scale / first_pose.scale).to(first["scale"].raw)
        losses["scale"] = _difference_loss(first["scale"], second["scale"], zoom)
    return losses


def variance_preserving(posteriors: Mapping[str, Posterior], pose: Pose, share: float = 0.5) -> Tensor:
    """A hinge against mode collapse: over the batch, predictions vary at least ``share`` as much as what was applied.

    The sum over the primitives of max(0, share − σ(predicted) / σ(applied)), after the variance term of VICReg; 0 where
    enough variety is left, or where all were moved alike. The deviation is that of the logarithm for a scale; for a
    rotation that of the unit vector, and a ring counts with its mean vector, so that being undecided is no variety.
    """
    terms = [torch.zeros_like(pose.rotation[:1]).sum()]
    for name, posterior in posteriors.items():
        wanted = _variance(_embedded(posterior, getattr(pose, name).to(posterior.raw)))
        there = _variance(_predicted(posterior))
        floor = 1e-4 * wanted + 1e-12  # a square root has no slope at 0
        terms.append(torch.relu(share - torch.sqrt(there + floor) / torch.sqrt(wanted + floor)))
    return torch.stack([term.to(terms[-1]) for term in terms]).sum()


def _turn_loss(first: Posterior, second: Posterior, turn: Tensor) -> Tensor:
    if isinstance(first, Circular) and isinstance(second, Circular):
        return ring_loss(first, second, turn)
    return _difference_loss(first, second, turn)


def _difference_loss(first: Posterior, second: Posterior, change: Tensor) -> Tensor:
    """Least squares for the best values, and a Gaussian −ln likelihood for the widths, which sees the errors as given.

    ``change (B,)`` is in radians, or ln of a zoom. Trained by the likelihood alone, the widths grow to explain all
    errors before the best values have learned anything, and then keep them from it.
    """
    is_scale = isinstance(first.primitive, Scale)
    if is_scale:
        error = torch.log(second.best() / first.best()) - change
    else:
        error = wrap_angle(second.best() - first.best() - change)
    low, high = first.primitive.range
    unit = UNIT * (math.log(high / low) if is_scale else high - low)
    squares = 0.5 * (error / unit).square().mean()
    if isinstance(first, Point):
        return squares
    variance = _width(first).square() + _width(second).square()
    return squares + 0.5 * (error.detach().square() / variance + torch.log(2 * math.pi * variance)).mean()


def _width(posterior: Posterior) -> Tensor:
    """Standard deviation of a belief, ``(B,)``: in radians, or that of ln s."""
    return posterior.spread() / posterior.best() if isinstance(posterior.primitive, Scale) else posterior.spread()


def _side(beliefs: Mapping[str, Posterior], pose: Pose) -> Tensor | float:
    """r = ±1 of the object before it was moved: what is believed now, less what was applied."""
    if "reflection" not in beliefs:
        return 1.0
    believed = beliefs["reflection"].best().detach()
    return believed * pose.reflection.to(believed)


def _predicted(posterior: Posterior) -> Tensor:
    """Best values as vectors, ``(B, d)``; the mean vector of a ring, whose best value is a maximum without slope."""
    if isinstance(posterior, Circular):
        masses = posterior.log_masses.exp()
        return masses @ torch.stack((torch.cos(posterior.angles), torch.sin(posterior.angles)), -1)
    return _embedded(posterior, posterior.best())


def _embedded(posterior: Posterior, values: Tensor) -> Tensor:
    """Values ``(B,)`` or ``(B, 2)`` as vectors ``(B, d)`` whose ordinary variance is the one that is meant."""
    if isinstance(posterior.primitive, Rotation):
        return torch.stack((torch.cos(values), torch.sin(values)), -1)
    if isinstance(posterior.primitive, Scale):
        return torch.log(values).unsqueeze(-1)
    return values.reshape(len(values), -1)


def _variance(vectors: Tensor) -> Tensor:
    """Summed over the components, a scalar; for unit vectors 1 − R², from 0 to 1."""
    return (vectors - vectors.mean(0)).square().mean(0).sum()
