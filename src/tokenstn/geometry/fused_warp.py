"""The warp as one kernel of Triton, on a GPU and without gradients: one pass over memory instead of four.

The plain way casts the images to float32, writes a sampling grid, samples, and casts back. Here each output pixel finds
its place, reflects it into the image and interpolates all channels; images are read and written in their own precision,
and everything between is float32. It is ``warp`` with bilinear sampling and reflection padding, which is what rectifies
views; ``warp`` itself is the reference, and what runs wherever this does not.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PIXELS = 512  # of one program


def fused_warp(images: Tensor, views: Tensor, size: tuple[int, int]) -> Tensor:
    """Images ``(B, C, H, W)`` as seen in each of their views ``(B, V, 3, 3)`` float32 → ``(B, V, C, h, w)``."""
    batch, channels, height, width = images.shape
    count, (out_height, out_width) = views.shape[1], size
    seen = torch.empty(batch, count, channels, out_height, out_width, dtype=images.dtype, device=images.device)
    if seen.numel():
        parts = triton.cdiv(out_height * out_width, PIXELS)  # of each view
        numbers = (*images.stride(), count, channels, height, width, out_height, out_width, parts)
        # along one axis, because CUDA takes no more than 65,535 programs along the others
        launched: Any = _warp_kernel[(batch * count * parts,)]  # Triton counts its arguments otherwise than pyright
        with torch.cuda.device_of(images):  # Triton launches on the current GPU, wherever the images are
            launched(images, views.contiguous(), seen, *numbers, pixels=PIXELS)
    return seen


@torch.library.custom_op("tokenstn::warp", mutates_args=())
def warp_operation(images: Tensor, views: Tensor, height: int, width: int) -> Tensor:
    """The same as one operation of a compiled graph, which leaves it as it is."""
    return fused_warp(images, views, (height, width))


@warp_operation.register_fake
def _(images: Tensor, views: Tensor, height: int, width: int) -> Tensor:
    return images.new_empty(images.shape[0], views.shape[1], images.shape[1], height, width)


@triton.jit
def _reflected(place, length):
    """A coordinate in pixels, reflected at the outer edges of the first and the last one; 0 where it is no number."""
    along = tl.abs(place + 0.5)
    turns = tl.floor(along / length)
    rest = along - turns * length
    odd = turns - 2.0 * tl.floor(turns / 2.0)
    place = tl.where(odd > 0.5, length - rest, rest) - 0.5
    place = tl.minimum(tl.maximum(place, 0.0), length - 1.0)
    return tl.where(place == place, place, 0.0)


@triton.jit
def _warp_kernel(
    images, views, seen, image_stride, channel_stride, row_stride, column_stride,
    count, channels, height, width, out_height, out_width, parts, pixels: tl.constexpr,
):  # fmt: skip
    view = tl.program_id(0) // parts
    pixel = tl.program_id(0) % parts * pixels + tl.arange(0, pixels)
    inside = pixel < out_height * out_width
    shorter, out_shorter = tl.minimum(height, width), tl.minimum(out_height, out_width)
    # the centre of the pixel in the isotropic frame of the rectified image
    x = (2 * (pixel % out_width) + 1 - out_width).to(tl.float32) / out_shorter
    y = (2 * (pixel // out_width) + 1 - out_height).to(tl.float32) / out_shorter
    matrix = views + view * 9
    at_x = tl.load(matrix) * x + tl.load(matrix + 1) * y + tl.load(matrix + 2)
    at_y = tl.load(matrix + 3) * x + tl.load(matrix + 4) * y + tl.load(matrix + 5)
    # in pixels of the input, reflected into it
    column = _reflected((at_x * shorter + width - 1) / 2, 1.0 * width)
    row = _reflected((at_y * shorter + height - 1) / 2, 1.0 * height)
    left, top = tl.floor(column), tl.floor(row)
    right_share, lower_share = column - left, row - top
    left, top = left.to(tl.int32), top.to(tl.int32)
    right, below = tl.minimum(left + 1, width - 1) * column_stride, tl.minimum(top + 1, height - 1) * row_stride
    left, top = left * column_stride, top * row_stride
    plane = out_height * out_width
    image = images + (view // count).to(tl.int64) * image_stride
    target = seen + view.to(tl.int64) * channels * plane + pixel
    for channel in range(channels):
        upper = tl.load(image + top + left, inside, 0).to(tl.float32) * (1 - right_share)
        upper += tl.load(image + top + right, inside, 0).to(tl.float32) * right_share
        lower = tl.load(image + below + left, inside, 0).to(tl.float32) * (1 - right_share)
        lower += tl.load(image + below + right, inside, 0).to(tl.float32) * right_share
        value = upper * (1 - lower_share) + lower * lower_share
        tl.store(target + channel * plane, value.to(seen.dtype.element_ty), inside)
        image += channel_stride
