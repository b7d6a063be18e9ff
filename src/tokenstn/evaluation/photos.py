"""The original photos of a table, and the network's input after a pose was applied to them.

A pose is applied to the pixels of the photo, in its own isotropic frame, before anything that changes the aspect:
turning a squashed image is not squashing a turned one. Pixels stay floating point from the warp to the normalisation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tokenstn.data import BadImage, ImageDataset, ImageTable, UnreadableImageError, collate, fit, to_float
from tokenstn.data.fit import fit_layout, fit_pixels
from tokenstn.geometry import Group, Orbit, hide_corners, invert, warp
from tokenstn.geometry.constants import numbers
from tokenstn.models import Preprocessing
from tokenstn.system.processes import reads_for_another

Padding = Literal["reflection", "border", "mean"]
Mode = Literal["bilinear", "bicubic", "nearest"]
Size = tuple[int, int]

KEPT_RESOLUTION = 2.0  # how many pixels of a photo are kept for each one of the network's, along a side


class Photos(ImageDataset):
    """Some rows of a table as ``ImageDataset`` gives them, and the pixels before they were fitted.

    An element is a dict: ``image`` uint8 ``(C, h, w)``, exactly what prediction sees of the photo as it comes;
    ``photo`` uint8 ``(C, H, W)``, the box cut out, of any size; ``label``, ``index`` and ``photo_size`` (that of the
    cut-out). An image that cannot be read is a ``BadImage``.
    """

    def __init__(self, table: ImageTable, rows: Tensor, preprocessing: Preprocessing) -> None:
        super().__init__(table, **preprocessing.fitting, on_bad="skip")
        self.rows = rows
        self.preprocessing = preprocessing

    def __getitems__(self, positions: list[int]) -> list[dict[str, Any] | BadImage]:
        return [self[position] for position in positions]

    def __getitem__(self, position: int) -> dict[str, Any] | BadImage:
        row = int(self.rows[position])
        label = self.table.labels[row]
        try:
            photo = self._cut(self.table.read(row, self.channels), row)
        except UnreadableImageError as error:
            name = self.table.item_name(row)
            self.bad[name] = error.reason
            blank = torch.zeros(self.channels, *self.size, dtype=torch.uint8)
            empty = {"image": blank, "label": label, "index": row, "photo_size": torch.zeros(2, dtype=torch.int64)}
            return BadImage(name, error.reason, empty)
        return {
            "image": fit(photo, self.size, self.resize, self.crop_share, self.interpolation),
            "photo": shrink(photo, self.preprocessing),
            "label": label,
            "index": row,
            "photo_size": torch.tensor(photo.shape[1:]),
        }


def load_photos(
    table: ImageTable, rows: Tensor, preprocessing: Preprocessing, batch_size: int = 64, workers: int = 0
) -> DataLoader[Any]:
    """Batches of photos in the order of ``rows (n,)``; see ``collate_photos``."""
    return DataLoader(
        Photos(table, rows, preprocessing),
        batch_size=batch_size,
        num_workers=workers,
        collate_fn=collate_photos,
        worker_init_fn=reads_for_another,
    )


def collate_photos(batch: Sequence[dict[str, Any] | BadImage]) -> dict[str, Any]:
    """The batch that ``data.collate`` makes, with ``photo`` as a list, for photos differ in size."""
    photos = [sample["photo"] for sample in batch if not isinstance(sample, BadImage)]
    same_size = [
        sample if isinstance(sample, BadImage) else {key: value for key, value in sample.items() if key != "photo"}
        for sample in batch
    ]
    return {**collate(same_size), "photo": photos}


def shrink(photo: Tensor, preprocessing: Preprocessing) -> Tensor:
    """A photo with more than twice the pixels that are needed along a side, at twice; others as they are.

    Shrinking both sides alike, about the centre, commutes with every pose: the frame's unit, half the shorter side,
    shrinks along, and a matrix commutes with a multiple of the identity. So turned small photos are small turned ones,
    and an orbit of a 24-megapixel photo costs no more than one of a small photo.

    >>> shrink(torch.zeros(3, 900, 1200, dtype=torch.uint8), Preprocessing((32, 32), (0.5,) * 3, (0.5,) * 3)).shape
    torch.Size([3, 65, 87])
    """
    height, width = photo.shape[1:]
    resized, _ = fit_layout((height, width), preprocessing.size, preprocessing.resize, preprocessing.crop_share)
    factor = KEPT_RESOLUTION * max(resized[0] / height, resized[1] / width)
    if factor >= 1:
        return photo
    factor = math.ceil(min(height, width) * factor) / min(height, width)  # whole pixels, so that the aspect stays
    return fit(photo, (round(height * factor), round(width * factor)), "squash", 1.0, preprocessing.interpolation)


class PhotoOrbit:
    """The network's input for a batch of photos under every element of a group, made one at a time on the device.

    ``orbit[k]`` is ``(B, C, h, w)``, normalised: every photo at pose k. Where that is the identity it is the image that
    prediction on the file sees. A group's random first shear is drawn as ``geometry.Orbit`` does, by table row. With
    ``mask`` only the inscribed disc is left of every input, so that no seam is in sight.
    """

    def __init__(
        self,
        batch: dict[str, Any],
        group: Group,
        preprocessing: Preprocessing,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
        padding: Padding = "reflection",
        mode: Mode = "bilinear",
        mask: bool = False,
    ) -> None:
        self.preprocessing = preprocessing
        self.mask = mask
        self.device = torch.device(device)
        self.padding: Padding = padding
        self.mode: Mode = mode
        self._fitted = batch["image"]
        self._orbit = Orbit(batch["image"], group, index=batch["index"], seed=seed)
        self._stacks = stack_photos(batch["photo"], self.device)

    def __len__(self) -> int:
        return len(self._orbit)

    def matrices(self, k: int) -> Tensor:
        """The pose that element k gives to each photo, ``(B, 3, 3)`` in float64 on the CPU."""
        return self._orbit.matrices(k)

    def __getitem__(self, k: int) -> Tensor:
        inputs = self._inputs(k)
        return hide_corners(inputs) if self.mask else inputs

    def _inputs(self, k: int) -> Tensor:
        matrices = self.matrices(k)
        if _is_identity(matrices):
            return to_float(self._fitted.to(self.device), self.preprocessing.mean, self.preprocessing.std)
        return posed_stacks(self._stacks, matrices, self.preprocessing, self.padding, self.mode)


def posed_inputs(
    photos: Sequence[Tensor],
    matrices: Tensor,
    preprocessing: Preprocessing,
    *,
    device: torch.device | str = "cpu",
    padding: Padding = "reflection",
    mode: Mode = "bilinear",
) -> Tensor:
    """Apply a pose to each photo, fit, normalise: B photos uint8 ``(C, H, W)`` → float32 ``(B, C, h, w)``.

    Args:
        photos: of any sizes; those of one size are done together.
        matrices: poses in the photos' frames, ``(B, 3, 3)``, or ``(3, 3)`` for all.
        padding: what lies outside the photo: its reflection, its border continued, or the mean colour of the
            preprocessing.
        mode: how the warp reads between pixels.

    >>> photo = torch.randint(256, (3, 40, 60), dtype=torch.uint8)
    >>> posed_inputs([photo], Pose.of(rotation=1.0).matrix, Preprocessing((16, 16), (0.5,) * 3, (0.5,) * 3)).shape
    torch.Size([1, 3, 16, 16])
    """
    stacks = stack_photos(photos, torch.device(device))
    return posed_stacks(stacks, matrices.expand(len(photos), 3, 3), preprocessing, padding, mode)


@dataclass(frozen=True)
class Stack:
    """Photos of one size on a device, uint8 ``(b, C, H, W)``, and their places in the batch, there and on the CPU."""

    pixels: Tensor
    places: Tensor
    places_there: Tensor


def stack_photos(photos: Sequence[Tensor], device: torch.device) -> list[Stack]:
    """Photos uint8 ``(C, H, W)`` of any sizes, those of one size together."""
    sizes: dict[Size, list[int]] = {}
    for place, photo in enumerate(photos):
        sizes.setdefault((photo.shape[1], photo.shape[2]), []).append(place)
    stacks = []
    for same in sizes.values():
        pixels, places = torch.stack([photos[place] for place in same]), torch.tensor(same)
        stacks.append(Stack(pixels.to(device), places, places.to(device)))
    return stacks


def posed_stacks(
    stacks: Sequence[Stack], matrices: Tensor, preprocessing: Preprocessing, padding: Padding, mode: Mode
) -> Tensor:
    """What ``posed_inputs`` gives for photos that were stacked, at poses ``(B, 3, 3)`` on the CPU.

    Nothing here waits for the device, so that it has the next element to work on when it is done with one.
    """
    device = stacks[0].pixels.device
    inputs = torch.empty(len(matrices), len(preprocessing.mean), *preprocessing.size, device=device)
    mean, std = (numbers(values, like=inputs)[:, None, None] for values in (preprocessing.mean, preprocessing.std))
    for stack in stacks:
        posed = _pose(stack.pixels.float(), matrices[stack.places], padding, mode, 255 * mean)
        fitted = fit_pixels(
            posed, preprocessing.size, preprocessing.resize, preprocessing.crop_share, preprocessing.interpolation
        ).clamp(0, 255)  # bicubic overshoots, and a file's pixels cannot
        inputs.index_copy_(0, stack.places_there, (fitted / 255 - mean) / std)
    return inputs


def _pose(pixels: Tensor, matrices: Tensor, padding: Padding, mode: Mode, mean: Tensor) -> Tensor:
    """Photos of one size ``(b, C, H, W)`` at their poses; float, from 0 to 255."""
    if _is_identity(matrices):
        return pixels
    applied = invert(matrices).float().to(pixels.device, non_blocking=True)
    if padding == "mean":  # zeros around the mean
        return warp(pixels - mean, applied, padding="zeros", mode=mode, validate=False) + mean
    return warp(pixels, applied, padding=padding, mode=mode, validate=False)


def _is_identity(matrices: Tensor) -> bool:
    return torch.equal(matrices, torch.eye(3, dtype=matrices.dtype, device=matrices.device).expand_as(matrices))
