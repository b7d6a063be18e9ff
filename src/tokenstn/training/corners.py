"""Turned training images have made-up corners that give the angle away; varied, they are nothing to rely on.

A localizer that is trained on reflected corners alone reads them as well: on MNIST it lost 2.3 points when they were
padded in another way. Photos that really were taken at an angle have no seams.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tokenstn.geometry import hide_corners, warp
from tokenstn.training.poses import CORNERS, Indices, uniform

BORDER, HIDDEN = 0.25, 0.25  # shares of the images; the others keep their reflected corners


def vary_corners(
    posed: Tensor, images: Tensor, read: Tensor, seed: int, epoch: int, index: Indices, draw: int = 0
) -> Tensor:
    """Images at a pose ``(B, C, H, W)``, some with their border continued instead of reflected, some without corners.

    Args:
        posed: with reflection padding, from ``images``, where ``read (B, 3, 3)`` says.
        index, draw: the number of each image in its data set, and which of its copies this is.
    """
    share = torch.from_numpy(uniform(index, seed, epoch, CORNERS, draw))
    border, hidden = (
        chosen.nonzero().flatten().to(posed.device, non_blocking=True)
        for chosen in (share < BORDER, share > 1 - HIDDEN)
    )
    continued = warp(images[border], read[border], padding="border", validate=False)
    return posed.index_copy(0, border, continued).index_copy(0, hidden, hide_corners(posed[hidden]))
