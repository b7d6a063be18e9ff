"""The picture that a correction makes: how large it is, and which pose it shows the photo under."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from tokenstn.geometry import invert, warp_boxes
from tokenstn.inference.tiles import frame_of, pixel_matrix

Size = tuple[int, int]
Canvas = Literal["same", "expand"]
UNMOVED = 0.5  # pixels that a corner may move before it counts as moved
SLIVER = 0.01  # pixels that no row is added for: rounding makes as much of a quarter turn


def on_canvas(pose: Tensor, size: Size, canvas: Canvas) -> tuple[Tensor, Size]:
    """The pose between the frames of photo and result ``(3, 3)`` float64, and the size of the result.

    Args:
        pose: in the photo's frame.
        canvas: ``same`` keeps the size of the photo, so that corners may be cut off; ``expand`` makes it as large as
            the corrected photo is.

    >>> on_canvas(Pose.of(rotation=torch.tensor(torch.pi / 2)).matrix, (300, 400), "expand")[1]
    (400, 300)
    """
    pose = pose.double()
    if canvas == "same":
        return pose, size
    height, width = size
    whole = torch.tensor([[0.0, 0.0, width, height]], dtype=torch.float64)
    left, top, right, bottom = warp_boxes(whole, pose, size=size)[0].tolist()
    grown = (_whole(bottom - top), _whole(right - left))
    # pixels of the result, moved to where they lie beside those of a result of the photo's size
    shift = torch.eye(3, dtype=torch.float64)
    shift[0, 2], shift[1, 2] = (left + right - grown[1]) / 2, (top + bottom - grown[0]) / 2
    reads = pixel_matrix(pose, size, size) @ shift
    return invert(frame_of(size)) @ reads @ frame_of(grown), grown


def moves(matrix: Tensor, size: Size, output_size: Size) -> bool:
    """Whether the correction does anything that can be seen."""
    if size != output_size:
        return True
    height, width = size
    corners = torch.tensor([[0, 0], [width, 0], [0, height], [width, height]], dtype=torch.float64)
    reads = pixel_matrix(matrix, size, output_size)
    return bool((corners @ reads[:2, :2].T + reads[:2, 2] - corners).abs().max() >= UNMOVED)


def _whole(length: float) -> int:
    return max(1, math.ceil(length - SLIVER))
