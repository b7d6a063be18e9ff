"""``compose`` as one kernel of Triton, on a GPU and without gradients: fourteen tiny steps in one launch.

Each of them takes a GPU a microsecond or two, and a host longer to launch. ``compose`` is the reference, and what runs
wherever this does not.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

POSES = 128  # of one program


def fused_compose(
    rotation: Tensor, scale: Tensor, stretch: Tensor, shear: Tensor, reflection: Tensor, translation: Tensor
) -> Tensor:
    """The matrices ``(..., 3, 3)`` of poses: fields ``(...)``, the translation ``(..., 2)``, float32."""
    matrices = torch.empty(*rotation.shape, 3, 3, device=rotation.device)
    if count := rotation.numel():
        fields = [each.contiguous() for each in (rotation, scale, stretch, shear, reflection, translation)]
        launched: Any = _compose_kernel[(triton.cdiv(count, POSES),)]
        with torch.cuda.device_of(rotation):
            launched(*fields, matrices, count, poses=POSES)
    return matrices


@triton.jit
def _compose_kernel(
    rotations, scales, stretches, shears, reflections, translations, matrices, count, poses: tl.constexpr
):
    pose = tl.program_id(0) * poses + tl.arange(0, poses)
    there = pose < count
    angle, scale = tl.load(rotations + pose, there, 0), tl.load(scales + pose, there, 0)
    down = scale * tl.load(stretches + pose, there, 0)
    shear, mirrored = tl.load(shears + pose, there, 0), tl.load(reflections + pose, there, 0)
    cos, sin = tl.cos(angle), tl.sin(angle)
    entry = matrices + 9 * pose
    tl.store(entry, cos * scale, there)
    tl.store(entry + 1, (cos * shear - sin) * down, there)
    tl.store(entry + 2, tl.load(translations + 2 * pose, there, 0), there)
    tl.store(entry + 3, mirrored * sin * scale, there)
    tl.store(entry + 4, mirrored * (sin * shear + cos) * down, there)
    tl.store(entry + 5, tl.load(translations + 2 * pose + 1, there, 0), there)
    tl.store(entry + 6, 0.0, there)
    tl.store(entry + 7, 0.0, there)
    tl.store(entry + 8, 1.0, there)
