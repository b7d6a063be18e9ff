"""Consistency: does a moved copy get the same class as the image as it comes? It needs no labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

QUANTILES = 21  # 0, 5, 10, …, 100 %


@dataclass(frozen=True)
class Consistency:
    """Shares of moved copies with the class of element 0.

    overall: over all moved copies. by_element, of length E: over the images; the first is 1. by_image: quantiles 0, 5,
    …, 100 % over the images of each one's share.
    """

    overall: float
    by_element: tuple[float, ...]
    by_image: tuple[float, ...]


def consistency(predicted: Tensor) -> Consistency:
    """How often the answers of N images under E elements agree with those under element 0.

    Args:
        predicted: ``(E, N)`` classes; for multi-label data ``(E, N, L)``, and all labels must agree.

    A group of one element moves nothing, and agrees with itself.

    >>> found = consistency(torch.tensor([[3, 5], [3, 5], [3, 0]]))
    >>> found.overall, found.by_element, found.by_image[0], found.by_image[-1]
    (0.75, (1.0, 1.0, 0.5), 0.5, 1.0)
    """
    if predicted.ndim not in (2, 3) or not predicted.shape[0] or not predicted.shape[1]:
        raise ValueError(
            "consistency needs the classes of at least one image under at least one element, (E, N) or "
            f"(E, N, labels), got shape {tuple(predicted.shape)}"
        )
    same = (predicted == predicted[:1]).reshape(*predicted.shape[:2], -1).all(2).double().cpu()
    moved = same[1:] if len(same) > 1 else same
    levels = torch.linspace(0, 1, QUANTILES, dtype=torch.float64)
    return Consistency(
        overall=moved.mean().item(),
        by_element=tuple(same.mean(1).tolist()),
        by_image=tuple(_quantiles(moved.mean(0), levels).tolist()),
    )


def _quantiles(values: Tensor, levels: Tensor) -> Tensor:
    """Quantiles by interpolation; torch's own refuses more than 16 million values."""
    ordered = values.sort().values
    place = levels * (len(ordered) - 1)
    below = place.floor().long()
    return torch.lerp(ordered[below], ordered[(below + 1).clamp(max=len(ordered) - 1)], place - below)
