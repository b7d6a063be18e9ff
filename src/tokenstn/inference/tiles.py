"""One warp of a whole photo, tile by tile: as ``geometry.warp`` does it, without a floating-point copy of everything.

A photo of 100 megapixels would need 1.2 GB as fp32, as much again for the result, and 0.8 GB for the sampling grid.
Here a tile of the result is read from the part of the photo that it shows, so that only the two photos are held.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tokenstn.data.fit import reflected
from tokenstn.geometry import invert, warp

Size = tuple[int, int]
Pixels = NDArray[np.integer]  # uint8, uint16 or int32
Mode = Literal["bicubic", "nearest"]
Outside = Literal["reflection", "border"] | tuple[float, ...]  # or a value for each channel

TILE = 512  # pixels along a side
MARGIN = 3  # pixels around what a tile reads, for the interpolation


def frame_of(size: Size) -> Tensor:
    """The isotropic frame of an image in its pixels, ``(3, 3)`` float64; (0, 0) is the corner of the first pixel."""
    height, width = size
    unit = min(size) / 2
    return torch.tensor([[unit, 0.0, width / 2], [0.0, unit, height / 2], [0.0, 0.0, 1.0]], dtype=torch.float64)


def pixel_matrix(matrix: Tensor, size: Size, output_size: Size) -> Tensor:
    """A pose between frames as a map between pixels: a place in the result ↦ where it is read, ``(3, 3)`` float64."""
    return frame_of(size) @ matrix.double() @ invert(frame_of(output_size))


def warp_tiled(
    pixels: Pixels,
    matrix: Tensor,
    output_size: Size,
    outside: Outside = "reflection",
    mode: Mode = "bicubic",
    alpha: bool = False,
) -> Pixels:
    """``geometry.warp`` of one photo ``(H, W, C)`` to ``(h, w, C)``, in its own type.

    Args:
        matrix: the pose of the photo, ``(3, 3)``: result(q) = photo(M q) in the isotropic frames of both.
        outside: what lies around the photo: its reflection, its border continued, or a value for each channel.
        alpha: the last channel is opacity, up to 255: pixels then count as much as they are opaque, so that the colour
            of transparent ones, which nobody has seen, does not bleed into others.
    """
    size = (pixels.shape[0], pixels.shape[1])
    reads = pixel_matrix(matrix, size, output_size)
    result = np.empty((*output_size, pixels.shape[2]), dtype=pixels.dtype)
    for top in range(0, output_size[0], TILE):
        for left in range(0, output_size[1], TILE):
            bottom, right = min(top + TILE, output_size[0]), min(left + TILE, output_size[1])
            first, last = _reach(reads, (left, top, right, bottom))
            part = _part(pixels, first, last, outside)
            if alpha:
                part[:, :-1] *= part[:, -1:] / 255
            # the same map between the frames of the two parts
            local = reads.clone()
            local[:2, 2] += reads[:2, :2] @ torch.tensor([left, top], dtype=torch.float64) - torch.tensor(first)
            tile = (bottom - top, right - left)
            between = invert(frame_of((part.shape[-2], part.shape[-1]))) @ local @ frame_of(tile)
            shown = warp(part, between.to(part.dtype), tile, padding="border", mode=mode)
            if alpha:
                shown[:, :-1] *= 255 / shown[:, -1:].clamp_min(1e-3)
            result[top:bottom, left:right] = _as(shown[0].movedim(0, -1).numpy(), pixels.dtype)
    return result


def _reach(reads: Tensor, box: tuple[int, int, int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """The pixels that a tile is made of: x and y of the first, and of the one after the last."""
    left, top, right, bottom = box
    corners = torch.tensor([[left, top], [right, top], [left, bottom], [right, bottom]], dtype=torch.float64)
    seen = corners @ reads[:2, :2].T + reads[:2, 2]
    x0, y0 = (seen.amin(0).floor() - MARGIN).int().tolist()
    x1, y1 = (seen.amax(0).ceil() + MARGIN).int().tolist()
    return (x0, y0), (x1, y1)


def _part(pixels: Pixels, first: tuple[int, int], last: tuple[int, int], outside: Outside) -> Tensor:
    """The photo, continued beyond its edges, between two pixels: ``(1, C, h, w)`` floating point."""
    (x0, y0), (x1, y1) = first, last
    height, width = pixels.shape[:2]
    if outside == "reflection":
        rows, columns = reflected(height, y0, y1 - y0).numpy(), reflected(width, x0, x1 - x0).numpy()
    else:
        rows, columns = np.arange(y0, y1).clip(0, height - 1), np.arange(x0, x1).clip(0, width - 1)
    part = pixels[rows[:, None], columns].astype(np.float64 if pixels.dtype == np.int32 else np.float32)
    if not isinstance(outside, str):
        part[(np.arange(y0, y1) < 0) | (np.arange(y0, y1) >= height)] = outside
        part[:, (np.arange(x0, x1) < 0) | (np.arange(x0, x1) >= width)] = outside
    return torch.from_numpy(part).movedim(-1, 0).unsqueeze(0)


def _as(values: NDArray[np.floating], kind: np.dtype) -> Pixels:
    # whole numbers of 32 bits are grey levels of 16 in a type that files have: data.read_image takes no others
    limits = np.iinfo(np.uint16 if kind == np.int32 else kind)
    return values.round().clip(limits.min, limits.max).astype(kind)
