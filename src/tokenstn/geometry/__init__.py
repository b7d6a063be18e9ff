"""Pure functions on tensors: poses and their matrices, primitives, warps, finite groups. Imports only torch."""

from tokenstn.geometry.affine import Pose, compose, decompose, invert, wrap_angle
from tokenstn.geometry.disc import hide_corners
from tokenstn.geometry.fitting import fit_matrix, pose_in_photo, seen_rotation
from tokenstn.geometry.groups import (
    GROUPS,
    Group,
    Orbit,
    group,
    reflection_group,
    rotation_group,
    rotoscale_group,
    scale_group,
    shear_rotoscale_group,
    translation_group,
)
from tokenstn.geometry.primitives import (
    PRIMITIVES,
    OneSidedScale,
    Primitive,
    Reflection,
    Rotation,
    Scale,
    Shear,
    Translation,
    as_primitives,
)
from tokenstn.geometry.warp import frame_to_pixels, pixels_to_frame, warp, warp_boxes, warp_mask, warp_points

__all__ = [
    "GROUPS",
    "PRIMITIVES",
    "Group",
    "OneSidedScale",
    "Orbit",
    "Pose",
    "Primitive",
    "Reflection",
    "Rotation",
    "Scale",
    "Shear",
    "Translation",
    "as_primitives",
    "compose",
    "decompose",
    "fit_matrix",
    "frame_to_pixels",
    "group",
    "hide_corners",
    "invert",
    "pixels_to_frame",
    "pose_in_photo",
    "reflection_group",
    "rotation_group",
    "rotoscale_group",
    "scale_group",
    "seen_rotation",
    "shear_rotoscale_group",
    "translation_group",
    "warp",
    "warp_boxes",
    "warp_mask",
    "warp_points",
    "wrap_angle",
]
