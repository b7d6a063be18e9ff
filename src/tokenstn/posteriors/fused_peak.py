"""The best angle of a ring of bins as one kernel of Triton, on a GPU and without gradients.

``Circular.best`` takes fourteen tiny steps, and is the reference, and what runs wherever this does not.
"""

# pyright: reportOperatorIssue=false
# Triton says of sums and maxima that they may be tuples

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


def fused_peak(logits: Tensor) -> Tensor:
    """The angle ``(B,)`` in [−π, π) of the parabola through the highest of the logits ``(B, bins)`` and its neighbours.

    Bin k is the angle 2πk / bins; float32. A row with a value that is not finite gives NaN.
    """
    rows, bins = logits.shape
    angles = torch.empty(rows, device=logits.device)
    if rows:
        launched: Any = _peak_kernel[(rows,)]
        step, flat = 2 * math.pi / bins, -torch.finfo(torch.float32).eps
        with torch.cuda.device_of(logits):
            launched(logits.contiguous(), angles, step, flat, bins=bins, width=triton.next_power_of_2(bins))
    return angles


@triton.jit
def _peak_kernel(logits, angles, step, flat, bins: tl.constexpr, width: tl.constexpr):
    row, place = tl.program_id(0), tl.arange(0, width)
    on_ring = place < bins
    heights = tl.load(logits + row * bins + place, on_ring, float("-inf"))
    top, highest = tl.argmax(heights, 0), tl.max(heights, 0)
    before = tl.sum(tl.where(place == (top + bins - 1) % bins, heights, 0.0), 0)
    after = tl.sum(tl.where(place == (top + 1) % bins, heights, 0.0), 0)
    bend = tl.minimum(before - 2 * highest + after, flat)
    offset = tl.minimum(tl.maximum(0.5 * (before - after) / bend, -0.5), 0.5)
    angle = step * (tl.where(top >= bins // 2, top - bins, top) + offset)
    angle = tl.where(angle < -step * bins / 2, angle + step * bins, angle)
    no_number = 0.0 * tl.sum(tl.where(on_ring, heights, 0.0), 0)
    tl.store(angles + row, angle + no_number)
