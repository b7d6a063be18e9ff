"""What a prediction says about poses, in the photo's own pixels and in degrees, as columns of numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tokenstn.geometry import decompose, fit_matrix, pose_in_photo, seen_rotation
from tokenstn.models import Prediction, Preprocessing

Size = tuple[int, int]
Column = NDArray[np.floating] | NDArray[np.bool_]

TURNED_OR_MOVED = ("rotation", "translation", "reflection")  # told in degrees, pixels and yes or no; others as they are


def photo_poses(prediction: Prediction, sizes: Sequence[Size], preprocessing: Preprocessing) -> Tensor:
    """The most likely pose of each of B images in the frame of its photo, ``(B, 3, 3)`` float64 on the CPU.

    Args:
        sizes: height and width of the photos, or of what was cut out of them, which then is the photo.
    """
    assert prediction.pose is not None
    return pose_in_photo(prediction.pose.matrix.cpu(), _fits(sizes, preprocessing))


def pose_columns(
    prediction: Prediction, sizes: Sequence[Size], preprocessing: Preprocessing, primitives: Collection[str]
) -> dict[str, Column]:
    """Columns of B numbers for the primitives that were estimated.

    rotation_deg is clockwise; where ``mirrored``, the object was turned by it and the image then mirrored left-right.
    Lengths are pixels of the photo. Any other primitive is a column of its own name, in its own unit. A spread is the
    standard deviation of the belief; entropies go from 0 to 1.
    """
    assert prediction.pose is not None
    pose = decompose(photo_poses(prediction, sizes, preprocessing))
    half = torch.tensor([min(size) / 2 for size in sizes], dtype=torch.float64)
    spread = {name: values.double().cpu() for name, values in (prediction.spread or {}).items()}
    columns: dict[str, Tensor] = {}
    if {"rotation", "reflection"} & set(primitives):  # an upside-down mirror is one with half a turn
        columns["rotation_deg"] = seen_rotation(pose).rad2deg()
    if "rotation" in spread:
        columns["rotation_spread_deg"] = spread["rotation"].rad2deg()
    for name in primitives:
        if name in TURNED_OR_MOVED:
            continue
        columns[name] = getattr(pose, name)
        if name in spread:
            columns[f"{name}_spread"] = spread[name]
    if "translation" in primitives:
        columns["translation_x_px"], columns["translation_y_px"] = (half[:, None] * pose.translation).unbind(1)
    if "translation" in spread:
        zoom = _fits(sizes, preprocessing)[:, :2, :2].det().sqrt()
        columns["translation_spread_px"] = half * spread["translation"] / zoom
    if "reflection" in primitives:
        columns["mirrored"] = pose.reflection < 0
    for name, values in (prediction.entropy or {}).items():
        columns[f"entropy_{name}"] = values.cpu()
    return {name: values.numpy() for name, values in columns.items()}


def _fits(sizes: Sequence[Size], preprocessing: Preprocessing) -> Tensor:
    """P of each photo, ``(B, 3, 3)``."""
    return torch.stack([_fit(size, preprocessing) for size in sizes])


@lru_cache(maxsize=1024)  # most photos of a folder have one of a few sizes
def _fit(size: Size, preprocessing: Preprocessing) -> Tensor:
    return fit_matrix(size, preprocessing.size, preprocessing.resize, preprocessing.crop_share)
