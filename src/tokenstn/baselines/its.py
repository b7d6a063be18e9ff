"""Inverse transformation search: try poses, keep those where the classifier is locally most confident.

After "Tilt your Head: Activating the Hidden Spatial-Invariance of Classifiers" (Schmidt and Stober, ICML 2024). A tree
with one level per primitive: each level tries n points of its range; a point's score is the curvature of the
classifier's confidence there, minus the second difference of the smoothed (Gaussian, σ = 2 points) log-sum-exp of the
logits. The best three survive the first level, the best continuation of each the later ones. The matrices of a branch
are composed, so that the original image is resampled once.

Nothing is trained. It finds upright only if the classifier is most confident there, and not on symmetric objects.
Different from the publication: the wrap-around of the circle and the repeated ends of other ranges are stated here, the
branch with the best last score answers, and the energy of a multi-label classifier is Σ softplus, the log-sum-exp over
all sets of labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tokenstn.baselines.base import CommonOptions, Rival
from tokenstn.baselines.belief import Belief
from tokenstn.geometry import OneSidedScale, Pose, Primitive, Reflection, Rotation, as_primitives, warp


class InverseTransformationSearch(Rival):
    """A tree search over poses with the classifier's own confidence.

    Args:
        primitives: the levels, rotation first.
        points: how many are tried on each level, for each branch.
        hypotheses: how many branches survive the first level. ``views=n`` pools the n best of them.
        sigma: of the smoothing, in points.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> InverseTransformationSearch(classifier).eval()(torch.rand(2, 1, 12, 12)).pose.rotation.shape
    torch.Size([2])
    """

    learns = False

    def __init__(
        self,
        classifier: nn.Module | str,
        *,
        primitives: Iterable[str | Primitive] = (Rotation(), OneSidedScale()),
        points: int = 8,
        hypotheses: int = 3,
        sigma: float = 2.0,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(classifier, **common)
        self.primitives = as_primitives(primitives)
        for primitive in self.primitives:
            if primitive.components > 1 or isinstance(primitive, Reflection):
                raise ValueError(f"ITS searches along a line of values, which {primitive.name} has not: leave it out")
        if not self.primitives:
            raise ValueError("ITS searches over at least one primitive: rotation, scale or shear")
        if points < 3 or not 1 <= hypotheses <= points:
            raise ValueError(
                f"points={points}, hypotheses={hypotheses}: at least 3 points, and 1 to as many hypotheses"
            )
        if sigma <= 0:
            raise ValueError(f"sigma={sigma}: above 0")
        self.points, self.hypotheses, self.sigma = points, hypotheses, sigma

    @torch.no_grad()
    def localize(self, images: Tensor) -> Belief:
        values: dict[str, Tensor] = {"rotation": torch.zeros(len(images), 1, device=images.device)}  # (B, branches)
        score = torch.zeros_like(values["rotation"])
        for level, primitive in enumerate(self.primitives):
            points = search_points(primitive, self.points).to(images.device)
            tried = {name: kept.unsqueeze(-1).expand(-1, -1, self.points) for name, kept in values.items()}
            tried[primitive.name] = points.expand(len(images), values["rotation"].shape[1], -1)
            confidence = self._confidence(images, Pose.of(**tried).matrix)
            circular = isinstance(primitive, Rotation) and primitive.full_circle
            scores = curvature(confidence, circular, self.sigma)
            score, place = scores.topk(self.hypotheses if level == 0 else 1, dim=-1)  # (B, branches, kept)
            values = {name: each.gather(-1, place).flatten(1) for name, each in tried.items()}
            score = score.flatten(1)
        best_first = score.argsort(dim=1, descending=True, stable=True)
        return Belief.among(Pose.of(**{name: kept.gather(1, best_first) for name, kept in values.items()}).matrix)

    def _confidence(self, images: Tensor, matrices: Tensor) -> Tensor:
        """The log-sum-exp of the logits at ``matrices (B, H, n, 3, 3)``: ``(B, H, n)``."""
        energies = []
        for matrix in matrices.flatten(1, 2).unbind(1):
            logits = self.backbone.logits(warp(images, matrix, validate=False)).float()
            energies.append(F.softplus(logits).sum(-1) if self.multi_label else logits.logsumexp(-1))
        return torch.stack(energies, -1).unflatten(1, matrices.shape[1:3])


def search_points(primitive: Primitive, n: int) -> Tensor:
    """n evenly spaced values, ``(n,)``: around the full circle from 0 on, else from the upper to the lower end.

    >>> search_points(Rotation(), 8).rad2deg()[:3], search_points(OneSidedScale(), 3)
    (tensor([ 0., 45., 90.]), tensor([1.0000, 0.8750, 0.7500]))
    """
    if isinstance(primitive, Rotation) and primitive.full_circle:
        return torch.arange(n) * (2 * math.pi / n)
    low, high = primitive.range
    return torch.linspace(high, low, n)


def curvature(confidence: Tensor, circular: bool, sigma: float = 2.0) -> Tensor:
    """Minus the second difference of the smoothed values along the last axis, ``(…, n)`` → ``(…, n)``.

    Beyond its ends a range goes on around the circle, or with its last values.

    >>> curvature(torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), circular=True).argmax()
    tensor(2)
    """
    count = confidence.shape[-1]
    reach = math.ceil(4 * sigma)
    places = torch.arange(-reach - 1, count + reach + 1, device=confidence.device)
    places = places % count if circular else places.clamp(0, count - 1)
    offsets = torch.arange(-reach, reach + 1, device=confidence.device, dtype=confidence.dtype)
    bell = torch.exp(-0.5 * (offsets / sigma).square())
    smooth = (confidence[..., places].unfold(-1, 2 * reach + 1, 1) * (bell / bell.sum())).sum(-1)
    return 2 * smooth[..., 1:-1] - smooth[..., 2:] - smooth[..., :-2]
