"""Training: losses, poses, freezing and the checks around them. What is imported here needs no Lightning."""

from tokenstn.evaluation.collapse import PrimitiveHealth, collapse_report
from tokenstn.training.alignment import absolute_alignment, relative_alignment, variance_preserving
from tokenstn.training.freezing import (
    FrozenReport,
    freeze_all,
    freeze_first_half,
    frozen_report,
    keep_frozen_parts_in_eval,
)
from tokenstn.training.losses import classification_loss, kl_loss
from tokenstn.training.orientation import LabelConflict, orientation_predicts_label
from tokenstn.training.poses import draw_pose_pairs, draw_poses
from tokenstn.training.upright import UprightVerdict, is_upright

__all__ = [
    "FrozenReport",
    "LabelConflict",
    "PrimitiveHealth",
    "UprightVerdict",
    "absolute_alignment",
    "classification_loss",
    "collapse_report",
    "draw_pose_pairs",
    "draw_poses",
    "freeze_all",
    "freeze_first_half",
    "frozen_report",
    "is_upright",
    "keep_frozen_parts_in_eval",
    "kl_loss",
    "orientation_predicts_label",
    "relative_alignment",
    "variance_preserving",
]
