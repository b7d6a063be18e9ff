"""Poses of the planar affine group in canonical coordinates, and their matrices.

A pose is written as M = T(t) · F(r) · R(θ) · H(h) · S(s), applied right to left on homogeneous columns:

    T translation    F = diag(1, r), r = ±1    R rotation    H = [[1, h], [0, 1]]    S = diag(sx, sy)

with ``scale`` = sx and ``stretch`` = sy / sx. Every invertible affine matrix has exactly one such decomposition
with θ in (−π, π] and positive scales.

Convention: the isotropic frame. Origin at the image centre, x to the right, y down, unit = half the shorter side.
Angles are radians; a positive θ looks clockwise. M says how the object sits in the input, so the rectified image is
``rectified(q) = images(M q)`` and the correction is M⁻¹.

All functions are closed forms, element by element: no ``torch.linalg``, nothing that reduced matrix-multiplication
precision could touch, and they trace under ``torch.compile`` and ``torch.export``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from tokenstn.geometry.constants import scalar
from tokenstn.geometry.one_kernel import one_kernel_for


@dataclass(frozen=True)
class Pose:
    """How an object sits in its image. Every field has the batch shape ``(...)``; translation has ``(..., 2)``.

    rotation in radians, clockwise; scale = sx; stretch = sy / sx; shear = h; translation in units of half the shorter
    side, x then y; reflection +1 or −1.

    >>> Pose.of(rotation=torch.tensor([0.0, 0.5])).scale
    tensor([1., 1.])
    """

    rotation: Tensor
    scale: Tensor
    stretch: Tensor
    shear: Tensor
    translation: Tensor
    reflection: Tensor

    @classmethod
    def of(
        cls,
        rotation: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        stretch: Tensor | float = 1.0,
        shear: Tensor | float = 0.0,
        translation: Tensor | tuple[float, float] = (0.0, 0.0),
        reflection: Tensor | float = 1.0,
    ) -> Pose:
        """A pose from whatever differs from the identity; the rest is filled in and broadcast to one batch shape."""
        given = (rotation, scale, stretch, shear, reflection)
        like = next((v for v in (*given, translation) if isinstance(v, Tensor)), torch.tensor(0.0))
        like = like if like.is_floating_point() else like.float()
        scalars = [_as_given(v, like) for v in given]
        shift = translation.to(like).unbind(-1) if isinstance(translation, Tensor) else translation
        *parts, tx, ty = torch.broadcast_tensors(*scalars, *(_as_given(part, like) for part in shift))
        # what is filled in is shared by all calls, and the pose belongs to the caller
        parts = [part if isinstance(v, Tensor) else part.clone() for part, v in zip(parts, given, strict=True)]
        return cls(*parts[:4], translation=torch.stack((tx, ty), -1), reflection=parts[4])

    @property
    def matrix(self) -> Tensor:
        """The pose as a matrix, ``(..., 3, 3)``."""
        return compose(self)

    def __getitem__(self, index) -> Pose:
        """The poses of some rows of the batch."""
        return Pose(*(getattr(self, field.name)[index] for field in fields(self)))


torch.export.register_dataclass(Pose, serialized_type_name="tokenstn.Pose")


def compose(pose: Pose) -> Tensor:
    """The matrix T·F·R·H·S of a pose, ``(..., 3, 3)``, in the pose's dtype.

    >>> compose(Pose.of(scale=2.0, shear=0.5, translation=(0.5, 0.25)))
    tensor([[2.0000, 1.0000, 0.5000],
            [0.0000, 2.0000, 0.2500],
            [0.0000, 0.0000, 1.0000]])
    """
    numbers = (pose.rotation, pose.scale, pose.stretch, pose.shear, pose.reflection)
    if one_kernel_for(*numbers, pose.translation) and all(each.shape == pose.rotation.shape for each in numbers):
        from tokenstn.geometry.fused_pose import fused_compose

        return fused_compose(*numbers, pose.translation)
    cos, sin = torch.cos(pose.rotation), torch.sin(pose.rotation)
    sx, sy, h, r = pose.scale, pose.scale * pose.stretch, pose.shear, pose.reflection
    tx, ty = pose.translation.unbind(-1)
    return _affine(cos * sx, (cos * h - sin) * sy, r * sin * sx, r * (sin * h + cos) * sy, tx, ty)


def decompose(matrix: Tensor) -> Pose:
    """The one pose whose matrix this is. ``matrix`` is ``(..., 3, 3)``, invertible, with last row (0, 0, 1).

    >>> round(decompose(torch.diag(torch.tensor([-1.0, 1.0, 1.0]))).rotation.item(), 4)   # a left-right mirror
    3.1416
    """
    require_pose(matrix)
    a, b, c, d = matrix[..., 0, 0], matrix[..., 0, 1], matrix[..., 1, 0], matrix[..., 1, 1]
    determinant = a * d - b * c
    reflection = torch.where(determinant < 0, -1.0, 1.0).to(matrix.dtype)
    area = determinant.abs()
    scale = torch.hypot(a, c)
    return Pose(
        rotation=torch.atan2(reflection * c + 0.0, a),  # + 0.0: a negative zero would give −π for half a turn
        scale=scale,
        stretch=area / scale.square(),
        shear=(a * b + c * d) / area,
        translation=matrix[..., :2, 2],
        reflection=reflection,
    )


def invert(matrix: Tensor) -> Tensor:
    """The inverse of affine matrices, ``(..., 3, 3)`` → ``(..., 3, 3)``.

    >>> invert(torch.diag(torch.tensor([2.0, 4.0, 1.0]))).diagonal()
    tensor([0.5000, 0.2500, 1.0000])
    """
    require_pose(matrix)
    return unchecked_inverse(matrix)


def unchecked_inverse(matrix: Tensor) -> Tensor:
    """``invert`` without a look at the values, for matrices that were made here."""
    a, b, c, d = matrix[..., 0, 0], matrix[..., 0, 1], matrix[..., 1, 0], matrix[..., 1, 1]
    tx, ty = matrix[..., 0, 2], matrix[..., 1, 2]
    determinant = a * d - b * c
    a, b, c, d = d / determinant, -b / determinant, -c / determinant, a / determinant
    return _affine(a, b, c, d, -(a * tx + b * ty), -(c * tx + d * ty))


def require_pose(matrix: Tensor) -> None:
    """Refuse a matrix that is no invertible affine map. Looks at values, so it is skipped while tracing."""
    if matrix.shape[-2:] != (3, 3):
        raise ValueError(f"a pose matrix has shape (..., 3, 3), got {tuple(matrix.shape)}")
    if not matrix.is_floating_point():
        raise ValueError(f"a pose matrix is floating point, got {matrix.dtype}; convert it with .float()")
    if torch.compiler.is_compiling():
        return
    if not bool(torch.isfinite(matrix).all()):
        raise ValueError("the pose matrix has a value that is not finite; check the pose it was made from")
    if not torch.equal(matrix[..., 2, :], matrix.new_tensor([0.0, 0.0, 1.0]).expand(matrix.shape[:-1])):
        raise ValueError("the last row of a pose matrix is (0, 0, 1): projective maps are not poses")
    linear = matrix[..., :2, :2]
    determinant = linear[..., 0, 0] * linear[..., 1, 1] - linear[..., 0, 1] * linear[..., 1, 0]
    smallest = 8 * torch.finfo(matrix.dtype).eps * linear.square().sum((-2, -1))
    if not bool((determinant.abs() > smallest).all()):
        raise ValueError("the pose matrix is singular (a scale of 0, or a reflection of 0): no pose has it")


def wrap_angle(angle: Tensor) -> Tensor:
    """The same angle in [−π, π).

    >>> wrap_angle(torch.tensor([3.5])).round(decimals=4)
    tensor([-2.7832])
    """
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def _as_given(value: Tensor | float, like: Tensor) -> Tensor:
    return value.to(like) if isinstance(value, Tensor) else scalar(float(value), like)


def _affine(a: Tensor, b: Tensor, c: Tensor, d: Tensor, tx: Tensor, ty: Tensor) -> Tensor:
    zero, one = (scalar(value, like=a).expand_as(a) for value in (0.0, 1.0))
    return torch.stack((a, b, tx, c, d, ty, zero, zero, one), -1).unflatten(-1, (3, 3))
