"""What a rival read from a batch of images, before it looks at them again: one pose, some hypotheses, or a posterior.

It stands where TokenSTN has its posteriors: ``model.classify(images, model.localize(images))``, so that the images
which the method reads and those which it rectifies may differ (the evaluation's controls use that).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor

from tokenstn.geometry import Pose, decompose
from tokenstn.posteriors import RandomSource

Sampling = Literal["probable", "random"]
Look = Callable[[int, Sampling, RandomSource], Tensor]  # how many views, how, from which noise → (B, V, 3, 3)


@dataclass(frozen=True)
class Belief:
    """best ``(B, 3, 3)``: the most likely pose. look: the poses under which the images are looked at, equally weighted.

    ``look`` may give fewer views than it is asked for: a method that knows one pose has one. entropy, spread
    ``{primitive: (B,)}``: as in ``Prediction``, None for a method without a posterior.
    """

    best: Tensor
    look: Look
    entropy: dict[str, Tensor] | None = None
    spread: dict[str, Tensor] | None = None

    @classmethod
    def among(cls, hypotheses: Tensor) -> Belief:
        """Some poses for each image, ``(B, H, 3, 3)``, the best first; n views are the first n of them.

        >>> poses = torch.eye(3).expand(2, 3, 3, 3)
        >>> Belief.among(poses).look(2, "probable", None).shape
        torch.Size([2, 2, 3, 3])
        """
        return cls(hypotheses[:, 0], lambda n, sampling, noise: hypotheses[:, :n])

    @classmethod
    def certain(cls, matrix: Tensor) -> Belief:
        """One pose for each image, ``(B, 3, 3)``, and no doubt about it."""
        return cls.among(matrix.unsqueeze(1))


def poses_of(matrix: Tensor) -> Pose:
    """The poses of matrices ``(B, 3, 3)``; NaN where a matrix is singular or not finite, so that it has none.

    Nothing keeps a network that regresses entries of a matrix away from those, and one of them must not stop the rest.

    >>> flat = torch.diag(torch.tensor([1.0, 0.0, 1.0]))
    >>> poses_of(torch.stack((torch.eye(3), flat))).scale
    tensor([1., nan])
    """
    linear = matrix[:, :2, :2]
    determinant = linear[:, 0, 0] * linear[:, 1, 1] - linear[:, 0, 1] * linear[:, 1, 0]
    smallest = 16 * torch.finfo(matrix.dtype).eps * linear.square().sum((1, 2))
    proper = (determinant.abs() > smallest) & torch.isfinite(matrix).all(-1).all(-1)
    identity = torch.eye(3, dtype=matrix.dtype, device=matrix.device)
    pose = decompose(torch.where(proper[:, None, None], matrix, identity))
    values = (getattr(pose, field.name) for field in fields(pose))
    return Pose(*(torch.where(proper if v.ndim == 1 else proper[:, None], v, torch.nan) for v in values))
