"""Fitting a photo to the network's input as an affine map, and poses on the way back through it.

Convention: P maps the photo's isotropic frame to the network's (each has its own: centre, unit = half the shorter side,
y down). A pose M that the network finds is P⁻¹ M P in the photo. Sizes are (height, width). P is made of the sizes that
resizing really has, rounded to whole pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tokenstn.geometry.affine import Pose, invert, wrap_angle

Size = tuple[int, int]
SMALLEST_SHARE = 0.05  # below it, next to nothing of a photo would be seen, at a size that no memory holds


def fit_matrix(
    photo_size: Size,
    size: Size,
    resize: str = "crop",
    crop_share: float = 1.0,
    box: Sequence[int] | None = None,
) -> Tensor:
    """P of ``data.fit``: the photo's frame to the network's, ``(3, 3)`` float64.

    Args:
        photo_size: height and width of the whole photo.
        box: left, top, right, bottom in pixels, where that part of the photo was cut out first.

    >>> fit_matrix((100, 200), (50, 50)).diagonal()        # the shorter side is kept whole: the same unit
    tensor([1., 1., 1.], dtype=torch.float64)
    """
    left, top, right, bottom = (0, 0, photo_size[1], photo_size[0]) if box is None else box
    part = (bottom - top, right - left)
    resized, (row, column) = fit_layout(part, size, resize, crop_share)
    photo_to_pixels = _scale_shift(min(photo_size) / 2, min(photo_size) / 2, photo_size[1] / 2, photo_size[0] / 2)
    to_part = _scale_shift(1.0, 1.0, -left, -top)
    to_network = _scale_shift(resized[1] / part[1], resized[0] / part[0], -column, -row)
    unit = 2 / min(size)
    pixels_to_frame = _scale_shift(unit, unit, -size[1] / 2 * unit, -size[0] / 2 * unit)
    return pixels_to_frame @ to_network @ to_part @ photo_to_pixels


def fit_layout(photo: Size, size: Size, resize: str, crop_share: float) -> tuple[Size, Size]:
    """The size that a photo is resized to, and where the network's first row and column lie in that."""
    if len(size) != 2 or min(size) < 1 or min(photo) < 1:
        raise ValueError(f"sizes are height and width in pixels, at least 1 each; got photo {photo}, size {size}")
    if not SMALLEST_SHARE <= crop_share <= 1:
        raise ValueError(f"crop_share {crop_share}: from {SMALLEST_SHARE} to 1")
    ratios = [wanted / given for wanted, given in zip(size, photo, strict=True)]
    if resize == "squash":
        return size, (0, 0)
    if resize == "crop":
        scale = max(ratios) / crop_share
        height, width = (max(round(given * scale), wanted) for given, wanted in zip(photo, size, strict=True))
    elif resize == "pad":
        scale = min(ratios)
        height, width = (min(max(round(given * scale), 1), wanted) for given, wanted in zip(photo, size, strict=True))
    else:
        raise ValueError(f"resize {resize!r}: one of crop, pad, squash")
    return (height, width), ((height - size[0]) // 2, (width - size[1]) // 2)


def pose_in_photo(matrix: Tensor, fit: Tensor) -> Tensor:
    """The pose M that a network found, in the frame of the photo: ``(..., 3, 3)`` and P ``(..., 3, 3)``, float64.

    P⁻¹ M P, with the linear part of M kept as it is: a rotation of the input is a rotation of the photo. The two are
    the same where P keeps the aspect, but for the rounding of sizes to whole pixels. Under ``squash`` P⁻¹ M P would
    stretch and shear what the network merely turned.

    >>> quarter = Pose.of(rotation=torch.tensor(torch.pi / 2), translation=(0.1, 0.0)).matrix
    >>> squashed = fit_matrix((100, 200), (50, 50), "squash")
    >>> pose_in_photo(quarter, squashed)[:2, 2].round(decimals=4)     # a tenth of its half width is 0.2 units
    tensor([0.2000, 0.0000], dtype=torch.float64)
    """
    matrix, back = matrix.double(), invert(fit.double())
    linear, centre = matrix[..., :2, :2], back[..., :2, 2:]
    shift = back[..., :2, :2] @ matrix[..., :2, 2:] + centre - linear @ centre  # M moves the network's centre to t
    found = matrix.expand(torch.broadcast_shapes(matrix.shape, back.shape)).clone()
    found[..., :2, 2:] = shift
    return found


def seen_rotation(pose: Pose) -> Tensor:
    """The angle that goes with the words "mirrored left-right", ``(...)`` radians; the rotation where it is not.

    A pose mirrors up and down after it has turned; the same with left and right is half a turn away. So the object was
    turned by this angle, clockwise, and then seen in a mirror.

    >>> mirror = Pose.of(rotation=torch.pi, reflection=-1.0)           # diag(−1, 1), as it is decomposed
    >>> round(abs(seen_rotation(mirror).item()), 4)
    0.0
    """
    return torch.where(pose.reflection < 0, wrap_angle(pose.rotation + torch.pi), pose.rotation)


def _scale_shift(sx: float, sy: float, tx: float, ty: float) -> Tensor:
    return torch.tensor([[sx, 0.0, tx], [0.0, sy, ty], [0.0, 0.0, 1.0]], dtype=torch.float64)
