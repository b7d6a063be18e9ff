"""A photo of any size as the network's input; the same step as an affine map is ``geometry.fit_matrix``."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

from tokenstn.geometry.fitting import Size, fit_layout, fit_matrix

__all__ = ["Interpolation", "Resize", "Size", "fit", "fit_layout", "fit_matrix", "fit_pixels", "reflected"]

ROOM = 32  # how many times as long as the network's input a side may be before its ends are cut off unseen

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
    if resize == "crop":
        pixels, resized = _without_ends(pixels, resized, size)
        top, left = ((n - m) // 2 for n, m in zip(resized, size, strict=True))
    if resized != tuple(pixels.shape[-2:]):
        pixels = _resized(pixels, resized, InterpolationMode(interpolation))
    if resized == size:
        return pixels.contiguous()
    if resize == "crop":
        return pixels[..., top : top + size[0], left : left + size[1]].contiguous()
    rows, columns = (
        reflected(n, offset, m).to(pixels.device) for n, offset, m in zip(resized, (top, left), size, strict=True)
    )
    return pixels[..., rows[:, None], columns]


def _without_ends(pixels: Tensor, resized: Size, size: Size) -> tuple[Tensor, Size]:
    """Photos ``(…, H, W)`` far longer than what is cut out of them, without their ends, and the size to resize them to.

    A photo of 1 × 30,000 pixels would be resized to 224 × 6,720,000 first. The middle stays where it is, and the scale
    to within 1 / (``ROOM`` · size), so that nothing moves by more than 1 / 64 pixel of the network.
    """
    new = list(resized)
    for axis in (0, 1):
        given, wanted = pixels.shape[axis - 2], ROOM * size[axis]
        kept = max(-(-given * wanted // resized[axis]), 9)  # bicubic interpolation reaches four pixels beyond a pixel
        kept += (given - kept) % 2
        if resized[axis] <= wanted or kept >= given:
            continue
        pixels = pixels.narrow(axis - 2, (given - kept) // 2, kept)
        new[axis] = round(kept * resized[axis] / given)
        new[axis] += (resized[axis] - new[axis]) % 2
    return pixels, (new[0], new[1])


def _resized(pixels: Tensor, size: Size, interpolation: InterpolationMode) -> Tensor:
    """torchvision's antialiased resize, of which a few cases would take all memory, fail, or be wrong."""
    height, width = pixels.shape[-2:]
    if height * size[1] > ROOM * max(height * width, size[0] * size[1]):  # torch makes the columns first
        pixels = _with_rows(pixels, size[0], interpolation)
    if size[1] > 1:
        return F.resize(pixels, list(size), interpolation, antialias=True)
    # torch knows the layout of memory by strides, which say nothing for a side of 1: it fails, or repeats the first row
    return _with_rows(_with_rows(pixels.mT, 1, interpolation).mT, size[0], interpolation)


def _with_rows(pixels: Tensor, rows: int, interpolation: InterpolationMode) -> Tensor:
    """``(…, H, W)`` → ``(…, rows, W)``, by way of two columns where there is one."""
    width = pixels.shape[-1]
    wide = pixels if width > 1 else pixels.expand(*pixels.shape[:-1], 2)
    size = [rows, wide.shape[-1]]
    return F.resize(wide.contiguous(), size, interpolation, antialias=True)[..., :width].contiguous()


def reflected(length: int, start: int, count: int) -> Tensor:
    """The indices start … start + count − 1 of a row of ``length``, reflected at its outer edges as often as needed."""
    index = torch.arange(start, start + count) % (2 * length)
    return torch.minimum(index, 2 * length - 1 - index)
