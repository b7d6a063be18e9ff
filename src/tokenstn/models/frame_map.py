"""From the rectified image back to where it came from: the network's input, or the photo.

What is found in the rectified image, such as a box, a key point or a heat-map of what a classifier looked at, belongs
in the photo. A place q of the rectified frame is M q in the input and P⁻¹ M q in the photo, where P fits the photo to
the network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.geometry import warp, warp_boxes, warp_mask, warp_points

Size = tuple[int, int]


@dataclass(frozen=True)
class FrameMap:
    """The way back of one image.

    matrix: ``(3, 3)`` float64 on the CPU, a place in the rectified frame ↦ the same place in the target's frame. size,
    target_size: height and width of both in pixels.
    """

    matrix: Tensor
    size: Size
    target_size: Size

    def points(self, points: Tensor) -> Tensor:
        """Places in pixels ``(..., N, 2)``, x then y, (0, 0) the corner of the first pixel, in the target."""
        return self._moved(warp_points, points)

    def boxes(self, boxes: Tensor) -> Tensor:
        """Boxes ``(..., N, 4)``, left, top, right, bottom in pixels: the upright ones around the moved corners."""
        return self._moved(warp_boxes, boxes)

    def mask(self, mask: Tensor) -> Tensor:
        """A mask ``(h, w)`` of any type in the target, ``(H, W)``: by the nearest pixel, 0 where nothing was seen."""
        return warp_mask(mask[None], self.matrix.to(mask.device), self.target_size, inverse=True)[0]

    def heatmap(self, values: Tensor) -> Tensor:
        """Values ``(h, w)`` or ``(C, h, w)`` in the target, interpolated, 0 where nothing was seen.

        They may be coarser or finer than the rectified image, as the patches of a ViT are: they show the same.
        """
        stacked = values if values.ndim == 3 else values[None]
        matrix = self.matrix.to(values.device, torch.float32)  # a photo has too many pixels for half precision
        moved = warp(stacked[None], matrix, self.target_size, inverse=True, padding="zeros")[0]
        return moved if values.ndim == 3 else moved[0]

    def _moved(self, move: Callable[..., Tensor], places: Tensor) -> Tensor:
        """Places in pixels, in float32 at least: half precision has too few digits for the pixels of a photo."""
        matrix = self.matrix.to(places.device)
        moved = move(places.double(), matrix, inverse=True, size=self.target_size, output_size=self.size)
        return moved.to(torch.promote_types(places.dtype, torch.float32))
