"""Where to look: from what is believed about the pose of each image to the views that are classified."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tokenstn.geometry import Pose
from tokenstn.posteriors import Posterior, Views, best_pose, most_probable_poses


def aim(posteriors: Mapping[str, Posterior], count: int, blur: float = 0.0) -> tuple[Pose, Views]:
    """The most likely pose ``(B,)``, and at most ``count`` most probable views with their masses, not yet weights.

    blur: by how many radians the belief about the angle is widened, so that there are views on both sides of the best.
    """
    pose = best_pose(posteriors)
    if count == 1:
        return pose, only(pose)
    poses, masses = most_probable_poses(posteriors, count, blur)
    return pose, Views(poses.matrix, masses)


def only(pose: Pose) -> Views:
    """One view, the pose ``(B,)`` itself."""
    matrix = pose.matrix
    # 1, and not a number where the pose is none: sampling there would read some pixel, and the answer look like one
    return Views(matrix.unsqueeze(1), 1 + 0 * matrix.sum((-2, -1)).unsqueeze(1))


def weighted(matrices: Tensor, masses: Tensor) -> Views:
    """Views ``(B, V, 3, 3)`` with weights in the proportions of their masses ``(B, V)``."""
    return Views(matrices, masses / masses.sum(1, keepdim=True))


def enough_views(views: Views, enough: float) -> Views:
    """Each row keeps its first views until they hold ``enough`` of the belief; the rest get weight 0."""
    masses = views.weights
    held_before = masses.cumsum(1) - masses
    kept = torch.where(held_before >= enough, 0.0, masses)  # written so that a belief that is no number stays none
    most = max(1, int((kept > 0).sum(1).amax()))
    return weighted(views.matrices[:, :most], kept[:, :most])
