"""A photo of any size as the network's input, and the same step as an affine map, so that poses can be taken back.

Convention: P maps the photo's isotropic frame to the network's (each has its own: centre, unit = half the shorter side,
y down). A pose M that the network finds is P⁻¹ M P in the photo. Sizes are (height, width). P is made of the sizes that
resizing really has, rounded to whole pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

Resize = Literal["crop", "pad", "squash"]
Interpolation = Literal["bilinear", "bicubic"]
Size = tuple[int, int]


def fit(
    image: Tensor,
    size: Size,
    resize: Resize = "crop",
    crop_share: float = 1.0,
    interpolation: Interpolation = "bicubic",
) -> Tensor:
    """Bring an image to the network's size, antialiased: uint8 ``(C, H, W)`` → uint8 ``(C, h, w)``.

    Args:
        resize: ``crop`` scales the photo until it covers size / crop_share and cuts the centre out; ``pad`` scales it
            until it fits and continues it by reflection (a flat frame would turn with the object and give its angle
            away); ``squash`` gives up the aspect.

    >>> fit(torch.zeros(3, 60, 80, dtype=torch.uint8), (32, 32)).shape
    torch.Size([3, 32, 32])
    """
    if image.ndim != 3 or image.dtype != torch.uint8:
        raise ValueError(f"an image to fit is uint8 (C, H, W), got {image.dtype} {tuple(image.shape)}")
    if interpolation not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolation {interpolation!r}: bilinear or bicubic")
    return fit_pixels(image, size, resize, crop_share, interpolation)


def fit_pixels(
    pixels: Tensor,
    size: Size,
    resize: Resize = "crop",
    crop_share: float = 1.0,
    interpolation: Interpolation = "bicubic",
) -> Tensor:
    """``fit`` for pixels of any type and a batch of images of one size: ``(…, H, W)`` → ``(…, h, w)``.

    Floating point values may overshoot a little, as bicubic interpolation does.
    """
    resized, (top, left) = fit_layout((pixels.shape[-2], pixels.shape[-1]), size, resize, crop_share)
    if resized != tuple(pixels.shape[-2:]):
        pixels = F.resize(pixels, list(resized), InterpolationMode(interpolation), antialias=True)
    if resized == size:
        return pixels
    if resize == "crop":
        return pixels[..., top : top + size[0], left : left + size[1]].contiguous()
    rows, columns = (
        _reflected(n, offset, m).to(pixels.device) for n, offset, m in zip(resized, (top, left), size, strict=True)
    )
    return pixels[..., rows[:, None], columns]


def fit_matrix(
    photo_size: Size,
    size: Size,
    resize: Resize = "crop",
    crop_share: float = 1.0,
    box: Sequence[int] | None = None,
) -> Tensor:
    """P of ``fit``: the photo's frame to the network's, ``(3, 3)`` float64.

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
    if not 0 < crop_share <= 1:
        raise ValueError(f"crop_share {crop_share}: above 0 and at most 1")
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


def _reflected(length: int, start: int, count: int) -> Tensor:
    """The indices start … start + count − 1 of a row of ``length``, reflected at its outer edges as often as needed."""
    index = torch.arange(start, start + count) % (2 * length)
    return torch.minimum(index, 2 * length - 1 - index)


def _scale_shift(sx: float, sy: float, tx: float, ty: float) -> Tensor:
    return torch.tensor([[sx, 0.0, tx], [0.0, sy, ty], [0.0, 0.0, 1.0]], dtype=torch.float64)
