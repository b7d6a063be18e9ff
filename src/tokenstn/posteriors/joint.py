"""The primitives are independent given the image, so the joint belief is the product of the marginals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.geometry import Pose
from tokenstn.posteriors.base import Posterior, RandomSource, largest


@dataclass(frozen=True)
class Views:
    """The poses under which an image is looked at: ``matrices (B, V, 3, 3)``, ``weights (B, V)``.

    Each row of weights sums to 1; a weight of 0 marks a view that is not used.

    >>> Views(torch.eye(3).expand(2, 1, 3, 3), torch.ones(2, 1)).weights.sum(1)
    tensor([1., 1.])
    """

    matrices: Tensor
    weights: Tensor


torch.export.register_dataclass(Views, serialized_type_name="tokenstn.Views")


def best_pose(posteriors: Mapping[str, Posterior]) -> Pose:
    """The most likely pose of each image, batch shape ``(B,)``; what has no posterior is the identity."""
    return Pose.of(**{name: posterior.best() for name, posterior in posteriors.items()})


def most_probable_poses(posteriors: Mapping[str, Posterior], n: int, blur: float = 0.0) -> tuple[Pose, Tensor]:
    """At most n most probable poses, the best first, and their masses, both with batch shape ``(B, V)``.

    V is the number of candidates there are, at most n: continuous Gaussians have one each. Masses sum to at most 1.
    blur: as in ``Posterior.candidates``.
    """
    values: dict[str, Tensor] = {}
    masses = torch.ones_like(next(iter(posteriors.values())).raw[:, :1])
    for name, posterior in posteriors.items():
        new = posterior.candidates(n, blur)
        product = (masses.unsqueeze(2) * new.masses.unsqueeze(1)).flatten(1)
        # the first pair is the best of both; the top n of a product need only the top n of each factor
        best = torch.zeros_like(product[:, 0], dtype=torch.long)
        chosen = largest(product, min(n, product.shape[1]), first=best)
        old_index, new_index = chosen // new.masses.shape[1], chosen % new.masses.shape[1]
        values = {known: _take(kept, old_index) for known, kept in values.items()}
        values[name] = _take(new.values, new_index)
        masses = product.gather(1, chosen)
    return Pose.of(**values), masses


def random_poses(posteriors: Mapping[str, Posterior], n: int, generator: RandomSource = None) -> tuple[Pose, Tensor]:
    """n independent random poses and their equal weights, both with batch shape ``(B, n)``."""
    pose = Pose.of(**{name: posterior.sample(n, generator) for name, posterior in posteriors.items()})
    return pose, torch.full_like(pose.rotation, 1 / n)


def _take(values: Tensor, index: Tensor) -> Tensor:
    """Entries of ``values (B, n[, 2])`` at ``index (B, V)``."""
    if values.ndim == 3:
        index = index.unsqueeze(-1).expand(-1, -1, values.shape[2])
    return values.gather(1, index)
