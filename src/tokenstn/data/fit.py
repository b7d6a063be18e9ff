"""A photo of any size as the network's input; the same step as an affine map is ``geometry.fit_matrix``."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

from tokenstn.geometry.fitting import Size, fit_layout, fit_matrix

__all__ = ["Interpolation", "Resize", "Size", "fit", "fit_layout", "fit_matrix", "fit_pixels", "reflected"]

Resize = Literal["crop", "pad", "squash"]
Interpolation = Literal["bilinear", "bicubic"]


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
        reflected(n, offset, m).to(pixels.device) for n, offset, m in zip(resized, (top, left), size, strict=True)
    )
    return pixels[..., rows[:, None], columns]


def reflected(length: int, start: int, count: int) -> Tensor:
    """The indices start … start + count − 1 of a row of ``length``, reflected at its outer edges as often as needed."""
    index = torch.arange(start, start + count) % (2 * length)
    return torch.minimum(index, 2 * length - 1 - index)
