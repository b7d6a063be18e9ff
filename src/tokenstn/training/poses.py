"""Random poses for training, each number a pure function of (seed, epoch, image, primitive).

Nothing depends on the batch, the order, the process or the device, so a resumed run repeats what it would have drawn
and several processes draw together what one would. The numbers are a counter-based hash: the words are folded one by
one into 64 bits by the finaliser of splitmix64 (Steele, Lea and Flood, 2014).
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from tokenstn.geometry import Pose, Primitive, Reflection, Rotation, Scale, as_primitives, wrap_angle
from tokenstn.geometry.affine import unchecked_inverse
from tokenstn.posteriors.circular import BINS, STEP

GOLDEN = 0x9E3779B97F4A7C15
WORD = 2**64 - 1
FIRST, SECOND, TURN, VIEWS, CORNERS, MIRROR = range(6)  # what a number is drawn for

Indices = Tensor | np.ndarray | Sequence[int]


def draw_poses(primitives: Iterable[str | Primitive], seed: int, epoch: int, index: Indices) -> Pose:
    """One random pose inside the model's own family for each image; batch shape ``(B,)``, float32, on the CPU.

    Rotation, shear and translation are uniform over their range, the logarithm of the scale is, a reflection is +1 or
    −1; what is not among the primitives is the identity.

    Args:
        index: the number of each image in its data set, ``(B,)``.

    >>> together = draw_poses(("rotation", "scale"), seed=0, epoch=3, index=[7, 8, 9])
    >>> alone = draw_poses(("rotation",), seed=0, epoch=3, index=[9])
    >>> bool(together.rotation[2] == alone.rotation[0])
    True
    """
    return _pose(primitives, index, seed, epoch, FIRST)


def draw_pose_pairs(primitives: Iterable[str | Primitive], seed: int, epoch: int, index: Indices) -> tuple[Pose, Pose]:
    """Two poses for each image, for data that are not upright: rotation and scale only, others are the identity.

    Over the full circle the two are a random whole number of 10° apart, so that the turn between them falls on a bin
    of a circular posterior; a bounded rotation and the scale are drawn twice.
    """
    movable = tuple(p for p in as_primitives(primitives) if isinstance(p, Rotation | Scale))
    first, second = (_pose(movable, index, seed, epoch, draw) for draw in (FIRST, SECOND))
    for primitive in movable:
        if isinstance(primitive, Rotation) and primitive.full_circle:
            turns = torch.from_numpy(np.floor(BINS * uniform(index, seed, epoch, TURN, _number(primitive), 0)))
            angle = wrap_angle(first.rotation.double() + STEP * turns).float()
            second = Pose.of(rotation=angle, scale=second.scale)
    return first, second


def draw_mirrored(seed: int, epoch: int, index: Indices) -> Tensor:
    """Which images are shown mirrored, ``(B,)`` booleans on the CPU: each one in half of the epochs."""
    return torch.from_numpy(uniform(index, seed, epoch, MIRROR) < 0.5)


def with_inverse(pose: Pose, device: torch.device) -> tuple[Pose, Tensor]:
    """A pose of batch shape ``(B,)``, and the inverse of its matrix ``(B, 3, 3)``, on a device.

    The inverse is worked out where the pose is, and all of it goes over in one piece: a GPU is not asked for twenty
    small things.

    >>> pose, inverse = with_inverse(draw_poses(("rotation",), 0, 0, [7, 8]), torch.device("cpu"))
    >>> torch.allclose(inverse @ pose.matrix, torch.eye(3), atol=1e-6)
    True
    """
    columns = [value if value.ndim == 2 else value.unsqueeze(1) for value in vars(pose).values()]
    inverse = unchecked_inverse(pose.matrix)
    widths = [column.shape[1] for column in columns]
    together = torch.cat((*columns, inverse.flatten(1)), 1).to(device, non_blocking=True)
    *parts, inverse = together.split([*widths, 9], 1)
    moved = Pose(*(part if width == 2 else part.squeeze(1) for part, width in zip(parts, widths, strict=True)))
    return moved, inverse.unflatten(1, (3, 3))


def image_noise(seed: int, epoch: int, index: Indices) -> Callable[[tuple[int, ...]], Tensor]:
    """A source of uniform numbers for random views: each call gives ``(B, …)`` float64 of which row b is image b's own.

    >>> together, alone = image_noise(0, 3, [7, 8]), image_noise(0, 3, [8])
    >>> bool((together((2, 4))[1] == alone((1, 4))[0]).all())
    True
    """
    calls = itertools.count()

    def draw(shape: tuple[int, ...]) -> Tensor:
        call = next(calls)
        columns = [uniform(index, seed, epoch, VIEWS, call, column) for column in range(math.prod(shape[1:]))]
        return torch.from_numpy(np.stack(columns, -1)).reshape(shape)

    return draw


def uniform(index: Indices, *words: int) -> np.ndarray:
    """Uniform numbers inside (0, 1), ``(B,)`` float64: a hash of the words and of each index.

    >>> bool(uniform([5], 1, 2)[0] == uniform([4, 5, 6], 1, 2)[1])
    True
    """
    state = 0
    for word in words:
        state = int(_mixed(np.array([(state ^ (word & WORD)) + GOLDEN & WORD], np.uint64))[0])
    numbers = np.asarray(index).astype(np.int64).reshape(-1).view(np.uint64)
    # mixed once more before and after: neighbouring images differ in one bit, and all must depend on it
    hashed = _mixed(_mixed(numbers + np.uint64(GOLDEN)) ^ np.uint64(state))
    return (hashed >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54


def _pose(primitives: Iterable[str | Primitive], index: Indices, seed: int, epoch: int, draw: int) -> Pose:
    values = {"rotation": torch.zeros(len(index))}  # gives the batch shape, also where nothing moves
    for primitive in as_primitives(primitives):
        columns = [
            uniform(index, seed, epoch, draw, _number(primitive), component)
            for component in range(primitive.components)
        ]
        drawn = torch.from_numpy(_value(primitive, np.stack(columns, -1))).float()
        values[primitive.name] = drawn if primitive.components > 1 else drawn.squeeze(-1)
    return Pose.of(**values)


def _value(primitive: Primitive, share: np.ndarray) -> np.ndarray:
    """The value at a share of the primitive's range."""
    low, high = primitive.range
    if isinstance(primitive, Reflection):
        return np.where(share < 0.5, -1.0, 1.0)
    if isinstance(primitive, Scale):
        return np.exp(math.log(low) + share * math.log(high / low))
    return low + share * (high - low)


def _number(primitive: Primitive) -> int:
    """A number that is the primitive's own, whichever others are switched on."""
    return zlib.crc32(primitive.name.encode())


def _mixed(words: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the result depends on every bit of the word."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
