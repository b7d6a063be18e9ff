"""Where to look: from what is believed about the pose of each image to the views that are classified."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tokenstn.geometry import Pose
from tokenstn.geometry.constants import constant
from tokenstn.posteriors import Posterior, Views, best_pose, most_probable_poses
from tokenstn.posteriors.base import largest


def aim(posteriors: Mapping[str, Posterior], count: int, blur: float = 0.0, unmoved: float = 0.0) -> tuple[Pose, Views]:
    """The most likely pose ``(B,)``, and at most ``count`` most probable views with their masses, not yet weights.

    blur: by how many radians the belief about the angle is widened, so that there are views on both sides of the best.
    unmoved: the share of images that come in no other pose than the identity, before anything is seen of them.
    """
    pose = best_pose(posteriors)
    if count == 1:
        return pose, only(pose)
    poses, masses = most_probable_poses(posteriors, count, blur)
    views = Views(poses.matrix, masses)
    several = masses.shape[1] > 1  # a belief of one view alone is trusted with that
    return pose, _with_image_itself(views, posteriors, unmoved, count) if unmoved and several else views


def _with_image_itself(views: Views, posteriors: Mapping[str, Posterior], unmoved: float, count: int) -> Views:
    """The views, the best one first, with the image as it is among them: it is not resampled, and so not blurred.

    A localizer is trained on poses from all of their range, as if none were more frequent than others. By Bayes' rule
    its belief is turned into one for images of which a share was not moved at all.
    """
    ratio = torch.stack([posterior.identity_ratio() for posterior in posteriors.values()]).prod(0)
    share = (unmoved * ratio / (unmoved * ratio + 1 - unmoved)).unsqueeze(1)
    masses = torch.cat((views.weights * (1 - share), share), 1)
    identity = constant(torch.eye, 3, like=views.matrices).expand(len(masses), 1, 3, 3)
    matrices = torch.cat((views.matrices, identity), 1)
    chosen = largest(masses, min(count, masses.shape[1]), first=torch.zeros_like(masses[:, 0], dtype=torch.long))
    return Views(matrices.gather(1, chosen[..., None, None].expand(-1, -1, 3, 3)), masses.gather(1, chosen))


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
