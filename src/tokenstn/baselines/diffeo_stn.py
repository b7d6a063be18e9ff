"""Diffeomorphic spatial transformer: M is the matrix exponential of what the network regresses, so never singular.

After "Deep Diffeomorphic Transformer Networks" (Skafte Detlefsen, Freifeld and Hauberg, 2018), whose affine case this
is: exp of a 3×3 matrix with a zero last row, or of its skew part, which is a rotation. The inverse is the exponential
of the negative. Different from the publication: its continuous piecewise-affine transformer is left out, since only
affine poses are compared, and the ConvNet is the shared one of ``pixels``.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from tokenstn.baselines.base import CommonOptions, Rival
from tokenstn.baselines.belief import Belief
from tokenstn.baselines.matrices import turn_matrix
from tokenstn.baselines.pixels import PixelLocalizer
from tokenstn.baselines.stn import AFFINE
from tokenstn.geometry import as_primitives


class DiffeoSTN(Rival):
    """M = exp(velocity).

    Args:
        skew: only the skew part, so that M is a rotation.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> DiffeoSTN(classifier, skew=True).eval()(torch.rand(2, 1, 12, 12)).pose.scale.tolist()
    [1.0, 1.0]
    """

    def __init__(self, classifier: nn.Module | str, *, skew: bool = False, **common: Unpack[CommonOptions]) -> None:
        super().__init__(classifier, **common)
        self.skew = skew
        self.primitives = as_primitives(("rotation",) if skew else AFFINE)
        start = torch.zeros(1 if skew else 6)
        self.localizer = self.beside_classifier(PixelLocalizer(self.channels, {"velocity": start}))

    def localize(self, images: Tensor) -> Belief:
        assert self.localizer is not None
        velocity = self.localizer(images)["velocity"]
        return Belief.certain(skew_exponential(velocity.squeeze(-1)) if self.skew else affine_exponential(velocity))


def affine_exponential(velocity: Tensor) -> Tensor:
    """exp of the 3×3 matrix whose first two rows are ``velocity (…, 6)`` and whose last is zero: ``(…, 3, 3)``.

    In float64 where there is such a thing: a GPU may be told to multiply float32 matrices with 10 bits.

    >>> affine_exponential(torch.zeros(6)).equal(torch.eye(3))
    True
    """
    wide = torch.float32 if velocity.device.type == "mps" else torch.float64
    with torch.autocast(velocity.device.type, enabled=False):
        rows = velocity.to(wide).unflatten(-1, (2, 3))
        matrix = torch.matrix_exp(torch.cat((rows, torch.zeros_like(rows[..., :1, :])), -2))
        last = matrix.new_tensor([[0.0, 0.0, 1.0]]).expand(*matrix.shape[:-2], 1, 3)  # exact whatever the rounding
        return torch.cat((matrix[..., :2, :], last), -2).float()


def skew_exponential(angle: Tensor) -> Tensor:
    """exp of [[0, −θ], [θ, 0]] for angles ``(…)``: the rotations, ``(…, 3, 3)``."""
    return turn_matrix(torch.stack((torch.cos(angle), torch.sin(angle)), -1))
