"""Move images, points, boxes and masks between the input and the rectified frame.

Convention: ``matrix`` is the pose M of the object in the input. All four functions go input → rectified, so images are
sampled at M q (``rectified(q) = images(M q)``) and points move by M⁻¹; ``inverse=True`` goes back. Coordinates are the
isotropic frame of ``tokenstn.geometry.affine``, pixel centres lie half a pixel inside (``align_corners=False``), and a
frame has its own unit: half the shorter side of that image, so an output of another size shows the same content.

Sampling runs in fp32 (float64 for input that needs it) with autocast off: half-precision grids are wrong by up to
0.7 px at 224², and half-precision CPU sampling fails outright above 32,767 pixels. There is no low-pass filter: to
shrink an image a lot, resize it with antialiasing first.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from tokenstn.geometry.affine import require_pose, unchecked_inverse
from tokenstn.geometry.constants import constant, numbers
from tokenstn.geometry.one_kernel import only_numbers, triton_runs, wants_gradient
from tokenstn.geometry.tracing import compiling_to_run_here

Padding = Literal["reflection", "zeros", "border"]
Mode = Literal["bilinear", "bicubic", "nearest"]

_WIDE = {torch.float64, torch.int32, torch.int64, torch.uint32, torch.uint64}  # what fp32 does not hold exactly
_WIDEST = {torch.int64, torch.uint64}  # nor float64


def warp(
    images: Tensor,
    matrix: Tensor,
    size: tuple[int, int] | None = None,
    *,
    inverse: bool = False,
    padding: Padding = "reflection",
    mode: Mode = "bilinear",
    validate: bool = True,
) -> Tensor:
    """Rectify images: ``out(q) = images(M q)``, or undo it with ``inverse``.

    Args:
        images: ``(B, C, H, W)``, any dtype; integers are rounded back to theirs.
        matrix: ``(3, 3)`` for all, ``(B, 3, 3)`` one each, or ``(B, V, 3, 3)`` for V views of each image.
        size: height and width of the result; those of the images when None.
        validate: refuse singular and non-finite matrices. Looks at values, which waits for a GPU.

    Returns:
        ``(B, C, h, w)``, or ``(B, V, C, h, w)`` for views, in the dtype of the images.

    >>> images = torch.arange(4.0).reshape(1, 1, 2, 2)
    >>> quarter = Pose.of(rotation=torch.tensor(torch.pi / 2)).matrix
    >>> warp(images, quarter).round().int().tolist()     # an object lying clockwise is turned back, anticlockwise
    [[[[1, 3], [0, 2]]]]
    """
    if images.ndim != 4:
        raise ValueError(f"images have shape (B, C, H, W), got {tuple(images.shape)}")
    if images.is_complex():
        raise ValueError("complex images cannot be warped; warp the real and imaginary parts")
    if validate:
        require_pose(matrix)
    if matrix.ndim == 2:
        matrix = matrix.expand(images.shape[0], 3, 3)
    if matrix.ndim not in (3, 4) or matrix.shape[0] != images.shape[0]:
        raise ValueError(
            f"{images.shape[0]} images need matrices of shape (3, 3), (B, 3, 3) or (B, V, 3, 3) with the same B, "
            f"got {tuple(matrix.shape)}"
        )
    views = matrix if matrix.ndim == 4 else matrix.unsqueeze(1)
    precision = torch.float64 if {images.dtype, matrix.dtype} & _WIDE else torch.float32
    with torch.autocast(images.device.type, enabled=False):
        views = views.to(device=images.device, dtype=precision)
        read_height, read_width = images.shape[-2:]
        height, width = size or (read_height, read_width)
        if inverse:
            views = unchecked_inverse(views)
        if padding == "reflection" and mode == "bilinear" and _in_one_kernel(images, views):
            from tokenstn.geometry.fused_warp import fused_warp, warp_operation

            compiling = torch.compiler.is_compiling()
            sampled = (
                warp_operation(images, views, height, width)
                if compiling
                else fused_warp(images, views, (height, width))
            )
            return sampled if matrix.ndim == 4 else sampled.squeeze(1)
        grid = _sampling_grid(views, (read_height, read_width), (height, width))
        # the views of an image are stacked along the height of one grid, so that each image is read in place
        grid = grid.flatten(1, 2)
        if mode == "nearest" and images.dtype in _WIDEST:
            sampled = _nearest(images, grid, padding)
        else:
            sampled = F.grid_sample(images.to(precision), grid, mode=mode, padding_mode=padding, align_corners=False)
            sampled = _to_dtype(sampled, images.dtype)
        sampled = sampled.unflatten(2, (views.shape[1], height)).movedim(2, 1)
    return sampled if matrix.ndim == 4 else sampled.squeeze(1)


def warp_points(
    points: Tensor,
    matrix: Tensor,
    *,
    inverse: bool = False,
    size: tuple[int, int] | None = None,
    output_size: tuple[int, int] | None = None,
) -> Tensor:
    """Move points from the input to the rectified frame, or back with ``inverse``.

    Args:
        points: ``(..., N, 2)``, x then y, in the isotropic frame; in pixels (0, 0 = the outer corner of the first
            pixel) when ``size`` is given.
        matrix: ``(..., 3, 3)``.
        size: height and width of the input image in pixels.
        output_size: height and width of the rectified image in pixels; ``size`` when None.

    >>> quarter = Pose.of(rotation=torch.tensor(torch.pi / 2)).matrix
    >>> warp_points(torch.tensor([[1.0, 2.0]]), quarter).round(decimals=4)     # below the centre → right of it
    tensor([[ 2., -1.]])
    """
    require_pose(matrix)
    if points.shape[-1:] != (2,):
        raise ValueError(f"points have shape (..., N, 2), got {tuple(points.shape)}")
    before, after = (output_size or size, size) if inverse else (size, output_size or size)
    moved = points if before is None else pixels_to_frame(points, before)
    m = (matrix if inverse else unchecked_inverse(matrix)).unsqueeze(-3)
    x, y = moved.unbind(-1)
    moved = torch.stack(
        (m[..., 0, 0] * x + m[..., 0, 1] * y + m[..., 0, 2], m[..., 1, 0] * x + m[..., 1, 1] * y + m[..., 1, 2]), -1
    )
    return moved if after is None else frame_to_pixels(moved, after)


def warp_boxes(
    boxes: Tensor,
    matrix: Tensor,
    *,
    inverse: bool = False,
    size: tuple[int, int] | None = None,
    output_size: tuple[int, int] | None = None,
) -> Tensor:
    """Move boxes ``(..., N, 4)`` = (left, top, right, bottom): the upright box around the four moved corners.

    Coordinates, sizes and direction as in ``warp_points``. A box that is turned by an odd angle grows.

    >>> eighth = Pose.of(rotation=torch.tensor(torch.pi / 4)).matrix
    >>> warp_boxes(torch.tensor([[-1.0, -1.0, 1.0, 1.0]]), eighth).round(decimals=3)
    tensor([[-1.4140, -1.4140,  1.4140,  1.4140]])
    """
    if boxes.shape[-1:] != (4,):
        raise ValueError(f"boxes have shape (..., N, 4), got {tuple(boxes.shape)}")
    corners = boxes[..., [0, 1, 2, 1, 2, 3, 0, 3]].unflatten(-1, (4, 2)).flatten(-3, -2)
    moved = warp_points(corners, matrix, inverse=inverse, size=size, output_size=output_size)
    moved = moved.unflatten(-2, (-1, 4))
    return torch.cat((moved.amin(-2), moved.amax(-2)), -1)


def warp_mask(mask: Tensor, matrix: Tensor, size: tuple[int, int] | None = None, *, inverse: bool = False) -> Tensor:
    """Move label masks ``(B, H, W)`` or ``(B, C, H, W)``, any dtype: nearest neighbour, 0 outside the image."""
    if mask.ndim not in (3, 4):
        raise ValueError(f"masks have shape (B, H, W) or (B, C, H, W), got {tuple(mask.shape)}")
    stacked = mask if mask.ndim == 4 else mask.unsqueeze(1)
    moved = warp(stacked, matrix, size, inverse=inverse, padding="zeros", mode="nearest")
    return moved if mask.ndim == 4 else moved.squeeze(-3)


def pixels_to_frame(points: Tensor, size: tuple[int, int]) -> Tensor:
    """Pixel coordinates ``(..., 2)`` of an image of ``size`` (height, width) in its isotropic frame.

    >>> pixels_to_frame(torch.tensor([[0.0, 0.0], [200.0, 50.0]]), (100, 200))
    tensor([[-2., -1.],
            [ 2.,  0.]])
    """
    height, width = size
    points = points if points.is_floating_point() else points.float()
    return (points - points.new_tensor([width / 2, height / 2])) * (2 / min(size))


def frame_to_pixels(points: Tensor, size: tuple[int, int]) -> Tensor:
    """The way back from ``pixels_to_frame``."""
    height, width = size
    points = points if points.is_floating_point() else points.float()
    return points * (min(size) / 2) + points.new_tensor([width / 2, height / 2])


def _sampling_grid(matrix: Tensor, size: tuple[int, int], output_size: tuple[int, int]) -> Tensor:
    """Where each output pixel is read, in ``grid_sample``'s own coordinates: ``(..., h, w, 2)``."""
    (height, width), (out_height, out_width) = size, output_size
    x = constant(_pixel_centres, out_width, min(output_size), like=matrix)
    y = constant(_pixel_centres, out_height, min(output_size), like=matrix)[:, None]
    # grid_sample runs from −1 to 1 along each side; the isotropic frame only along the shorter one
    if height != width:
        matrix = matrix * numbers((min(size) / width, min(size) / height, 1.0), like=matrix)[:, None]
    columns = matrix[..., :2, :].transpose(-1, -2)[..., None, None, :, :]  # (..., 1, 1, 3, 2)
    along_x, along_y, shift = columns.unbind(-2)
    # a column is made first, so that one operation alone is as large as the image
    return torch.addcmul(along_y * y[..., None] + shift, along_x, x[:, None])


def _nearest(images: Tensor, grid: Tensor, padding: Padding) -> Tensor:
    """The pixels themselves, of 64 bits each: images ``(B, C, H, W)`` at a grid ``(B, h, w, 2)`` → ``(B, C, h, w)``.

    What is sampled are the numbers of rows and columns, which every float holds; the first is 1, and 0 is outside.
    """
    height, width = images.shape[-2:]
    rows, columns = (torch.arange(1, side + 1, dtype=grid.dtype, device=grid.device) for side in (height, width))
    numbered = torch.stack(torch.meshgrid(rows, columns, indexing="ij")).expand(images.shape[0], -1, -1, -1)
    found = F.grid_sample(numbered, grid, mode="nearest", padding_mode=padding, align_corners=False).long()
    row, column = found.unbind(1)
    place = ((row - 1) * width + column - 1).clamp_min(0).flatten(1).unsqueeze(1)
    unsigned = images.dtype == torch.uint64  # which gather does not know; an exported graph knows no view of bits
    bits = images.view(torch.int64) if unsigned else images
    pixels = bits.flatten(2).gather(2, place.expand(-1, images.shape[1], -1)).unflatten(2, row.shape[1:])
    pixels = pixels.masked_fill(row.unsqueeze(1) == 0, 0)
    return pixels.view(torch.uint64) if unsigned else pixels


def _in_one_kernel(images: Tensor, views: Tensor) -> bool:
    """Whether ``fused_warp`` can: halves and floats on a GPU, no gradients, no export, Triton at hand."""
    return (
        images.is_cuda
        and views.dtype == torch.float32
        and images.dtype in (torch.bfloat16, torch.float16, torch.float32)
        and not wants_gradient(images, views)
        # what compiles for a GPU does so by Triton
        and (
            compiling_to_run_here()
            if torch.compiler.is_compiling()
            else only_numbers(images, views) and triton_runs(images.device)
        )
    )


def _pixel_centres(count: int, shorter: int, device: torch.device) -> Tensor:
    """Along one side, in units of half the shorter side, ``(count,)`` float64."""
    return (2 * torch.arange(count, dtype=torch.float64, device=device) + 1 - count) / shorter


def _to_dtype(values: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.bool:
        return values >= 0.5
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        return values.round().clamp(limits.min, limits.max).to(dtype)
    return values.to(dtype)
