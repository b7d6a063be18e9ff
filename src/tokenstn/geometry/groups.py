"""Finite sets of poses, and the orbits of images under them.

"Apply pose g to x" is ``warp(x, g⁻¹)``: the object then sits in the image at pose g. An orbit holds one transformed
copy of a batch for each element, made when it is asked for, so memory does not grow with the order.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.geometry.affine import Pose, compose, invert
from tokenstn.geometry.warp import Mode, Padding, warp

SMALLEST_SCALE = 0.75
LARGEST_SHEAR = 0.25
LARGEST_SHIFT = 0.125
LARGEST_ORDER = 1000  # two of which make a million elements


@dataclass(frozen=True)
class Group:
    """A finite set of poses. ``poses`` has the batch shape ``(n,)``; element 0 is the identity.

    With ``first_shear`` > 0 every image is also sheared once, by its own random amount up to that, before any element
    is applied: the paper's third test set.

    >>> square = rotation_group(4)
    >>> len(square), square.poses[1].rotation.rad2deg().round().item()
    (4, 90.0)
    """

    name: str
    poses: Pose
    first_shear: float = 0.0

    def __len__(self) -> int:
        return len(self.poses.rotation)


def rotation_group(order: int = 16) -> Group:
    """The rotations 2πk / order.

    >>> rotation_group(4).poses.rotation.rad2deg().round()
    tensor([  0.,  90., 180., 270.], dtype=torch.float64)
    """
    return Group("rotation", Pose.of(rotation=_steps(order, "rotation") * (2 * math.pi / order)))


def scale_group(order: int = 16, smallest: float = SMALLEST_SCALE) -> Group:
    """``order`` evenly spaced scales from 1 down to ``smallest``: the object looks smaller."""
    _require(0 < smallest <= 1, f"the smallest scale of a group is above 0 and at most 1, got {smallest}")
    return Group("scale", Pose.of(scale=1 - _steps(order, "scale") * ((1 - smallest) / max(order - 1, 1))))


def rotoscale_group(order: int = 16, scales: int | None = None, smallest: float = SMALLEST_SCALE) -> Group:
    """``order`` rotations times ``scales`` scales (as many as rotations when None), rotation running fastest."""
    angles = rotation_group(order).poses.rotation
    sizes = scale_group(order if scales is None else scales, smallest).poses.scale
    grid_sizes, grid_angles = torch.meshgrid(sizes, angles, indexing="ij")
    return Group("rotoscale", Pose.of(rotation=grid_angles.flatten(), scale=grid_sizes.flatten()))


def shear_rotoscale_group(
    order: int = 16, scales: int | None = None, smallest: float = SMALLEST_SCALE, shear: float = LARGEST_SHEAR
) -> Group:
    """A random shear for each image, then the roto-scale group."""
    _require(0 < shear <= math.pi, f"the shear of a group is above 0 and at most π, got {shear}")
    return Group("shear_rotoscale", rotoscale_group(order, scales, smallest).poses, first_shear=shear)


def reflection_group(order: int = 2) -> Group:
    """The identity and the up-down mirror."""
    _require(order == 2, f"the reflection group has order 2, got {order}")
    return Group("reflection", Pose.of(reflection=1 - 2 * _steps(2, "reflection")))


def translation_group(order: int = 3, largest: float = LARGEST_SHIFT) -> Group:
    """An ``order`` × ``order`` grid of shifts up to ``largest`` (in half shorter sides) each way, the identity first.

    The grid is centred on the identity, so ``order`` is odd.
    """
    _require(order % 2 == 1, f"a centred grid of shifts needs an odd order, got {order}")
    _require(largest > 0, f"the largest shift of a group is above 0, got {largest}")
    steps = (_steps(order, "translation") - order // 2) * (2 * largest / max(order - 1, 1))
    grid = torch.cartesian_prod(steps, steps)
    nearest_first = grid.square().sum(-1).argsort(stable=True)
    return Group("translation", Pose.of(translation=grid[nearest_first]))


GROUPS: dict[str, Callable[..., Group]] = {
    "rotation": rotation_group,
    "scale": scale_group,
    "rotoscale": rotoscale_group,
    "shear_rotoscale": shear_rotoscale_group,
    "reflection": reflection_group,
    "translation": translation_group,
}


def group(name: str, order: int, **options) -> Group:
    """A group by its name.

    >>> len(group("rotoscale", 16, scales=3))
    48
    """
    if name not in GROUPS:
        raise ValueError(f"unknown group {name!r}; there are {', '.join(GROUPS)}")
    return GROUPS[name](order, **options)


class Orbit:
    """The copies of a batch of images under every element of a group, made one at a time.

    ``orbit[k]`` is ``(B, C, H, W)``: every image at pose k; iterating gives (``matrices(k)``, ``orbit[k]``).

    Args:
        images: ``(B, C, H, W)``.
        index: the number of each image in its data set, ``(B,)``; with ``seed`` it decides the random first shear, so
            an image gets the same one in whatever batch it comes. 0…B−1 when None.

    >>> orbit = Orbit(torch.rand(2, 3, 8, 8), rotation_group(16))
    >>> len(orbit), orbit[3].shape
    (16, torch.Size([2, 3, 8, 8]))
    """

    def __init__(
        self,
        images: Tensor,
        group: Group,
        *,
        index: Tensor | None = None,
        seed: int = 0,
        padding: Padding = "reflection",
        mode: Mode = "bilinear",
    ) -> None:
        self.images = images
        self.group = group
        self.padding: Padding = padding
        self.mode: Mode = mode
        index = torch.arange(len(images)) if index is None else index
        if index.shape != (len(images),):
            raise ValueError(f"{len(images)} images need an index of shape ({len(images)},), got {tuple(index.shape)}")
        self._first_shear = _random_shears(index, group.first_shear, seed)

    def __len__(self) -> int:
        return len(self.group)

    def matrices(self, k: int) -> Tensor:
        """The pose that element k gives to each image, ``(B, 3, 3)`` in float64 on the CPU."""
        if not 0 <= k < len(self):
            raise IndexError(f"element {k} of a group of order {len(self)}")
        return compose(self.group.poses[k]) @ compose(Pose.of(shear=self._first_shear))

    def __getitem__(self, k: int) -> Tensor:
        applied = invert(self.matrices(k))
        return warp(self.images, applied.to(_warp_dtype(self.images)), padding=self.padding, mode=self.mode)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for k in range(len(self)):
            yield self.matrices(k), self[k]


def _warp_dtype(images: Tensor) -> torch.dtype:
    return torch.float64 if images.dtype == torch.float64 else torch.float32


def _steps(order: int, name: str) -> Tensor:
    _require(order >= 1, f"a {name} group needs an order of at least 1, got {order}")
    _require(order <= LARGEST_ORDER, f"a {name} group has an order of at most {LARGEST_ORDER:,}, got {order}")
    return torch.arange(order, dtype=torch.float64)


def _random_shears(index: Tensor, largest: float, seed: int) -> Tensor:
    """One shear for each image, uniform in ±largest, a function of (seed, index) alone; ``(B,)`` float64."""
    if largest == 0:
        return torch.zeros(len(index), dtype=torch.float64)
    draws = [random.Random(f"{seed}/{number}").uniform(-largest, largest) for number in index.tolist()]
    return torch.tensor(draws, dtype=torch.float64)


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise ValueError(sentence)
