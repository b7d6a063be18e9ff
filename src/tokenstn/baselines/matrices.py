"""From the numbers that a network puts out to pose matrices in fp32, entry by entry."""

from __future__ import annotations

import torch
from torch import Tensor

IDENTITY_ENTRIES = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


def affine_matrix(entries: Tensor) -> Tensor:
    """The six entries of the first two rows, ``(…, 6)``, with the last row (0, 0, 1): ``(…, 3, 3)``.

    >>> affine_matrix(torch.tensor(IDENTITY_ENTRIES)).equal(torch.eye(3))
    True
    """
    last = entries.new_tensor([0.0, 0.0, 1.0]).expand(*entries.shape[:-1], 3)
    return torch.cat((entries, last), -1).unflatten(-1, (3, 3))


def turn_matrix(direction: Tensor) -> Tensor:
    """The rotation with (cos θ, sin θ) = ``direction (…, 2)``, as it is given, not normalised: ``(…, 3, 3)``.

    >>> turn_matrix(torch.tensor([0.0, 1.0])).long().tolist()      # a quarter turn, clockwise
    [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    """
    cos, sin = direction.unbind(-1)
    zero = torch.zeros_like(cos)
    return affine_matrix(torch.stack((cos, -sin, zero, sin, cos, zero), -1))
