"""A table's images as torch reads them: fitted to the network's size, broken files reported or skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from tokenstn.data.fit import Interpolation, Resize, Size, fit
from tokenstn.data.images import UnreadableImageError, require_channels
from tokenstn.data.table import ImageTable
from tokenstn.geometry.constants import numbers

Sample = dict[str, Any]


@dataclass(frozen=True)
class BadImage:
    """Stands for an image that could not be read, until ``collate`` drops it. ``blank`` has the shapes of a sample."""

    name: str
    reason: str
    blank: Sample


class ImageDataset(Dataset):
    """The images of one split, or of the whole table.

    An element is a dict: ``image`` uint8 ``(C, h, w)``; ``label``, a number or ``(L,)`` float; ``index``, the row in
    the table; ``photo_size``, height and width of the whole photo, which ``fit_matrix`` needs to take a pose back.

    Args:
        split: train, val, test; None = every row.
        size, resize, crop_share, interpolation: as in ``fit``.
        channels: 1 or 3; None = those of the table.
        on_bad: ``raise`` an error for an image that cannot be read, or ``skip`` it: give a ``BadImage`` and remember it
            in ``bad``, name → reason. Workers of a DataLoader have a ``bad`` of their own; every batch lists its own.

    >>> from tokenstn.data import read_digits
    >>> ImageDataset(read_digits(), size=(20, 20), channels=1)[0]["image"].shape
    torch.Size([1, 20, 20])
    """

    def __init__(
        self,
        table: ImageTable,
        split: str | None = None,
        *,
        size: Size,
        resize: Resize = "crop",
        crop_share: float = 1.0,
        interpolation: Interpolation = "bicubic",
        channels: int | None = None,
        on_bad: Literal["raise", "skip"] = "raise",
    ) -> None:
        if on_bad not in ("raise", "skip"):
            raise ValueError(f"on_bad {on_bad!r}: raise or skip")
        self.table = table
        self.rows = torch.arange(len(table)) if split is None else table.split(split)
        self.size = size
        self.resize: Resize = resize
        self.crop_share = crop_share
        self.interpolation: Interpolation = interpolation
        self.channels = table.channels if channels is None else channels
        require_channels(self.channels)
        self.on_bad = on_bad
        self.bad: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> Sample | BadImage:
        row = int(self.rows[position])
        label = self.table.labels[row]
        try:
            photo = self.table.read(row, self.channels)
            part = self._cut(photo, row)
        except UnreadableImageError as error:
            name = self.table.item_name(row)
            if self.on_bad == "raise":
                raise type(error)(name, f"{error.reason}; --on_bad skip leaves such images out") from None
            self.bad[name] = error.reason
            blank = torch.zeros(self.channels, *self.size, dtype=torch.uint8)
            return BadImage(name, error.reason, _sample(blank, label, row, (0, 0)))
        fitted = fit(part, self.size, self.resize, self.crop_share, self.interpolation)
        return _sample(fitted, label, row, (photo.shape[1], photo.shape[2]))

    def __getitems__(self, positions: list[int]) -> list[Sample | BadImage] | Sample:
        """What a DataLoader asks for: a whole batch at once where the images are in memory in the right size."""
        items = self.table.items
        if not isinstance(items, Tensor) or self.table.boxes is not None or not self._fits(items):
            return [self[position] for position in positions]
        rows = self.rows[positions]
        sizes = torch.tensor(items.shape[2:]).repeat(len(rows), 1)
        return {"image": items[rows], "label": self.table.labels[rows], "index": rows, "photo_size": sizes}

    def _fits(self, items: Tensor) -> bool:
        covered = self.resize != "crop" or self.crop_share == 1.0
        return tuple(items.shape[1:]) == (self.channels, *self.size) and covered

    def _cut(self, photo: Tensor, row: int) -> Tensor:
        if self.table.boxes is None or int(self.table.boxes[row, 0]) < 0:
            return photo
        left, top, right, bottom = self.table.boxes[row].tolist()
        height, width = photo.shape[1:]
        if right > width or bottom > height:
            raise UnreadableImageError(
                self.table.item_name(row),
                f"the box {[left, top, right, bottom]} reaches outside the photo, {width} wide and {height} high",
            )
        return photo[:, top:bottom, left:right]


def collate(batch: Sequence[Sample | BadImage] | Sample) -> dict[str, Any]:
    """Samples as a batch.

    ``image`` ``(B, C, h, w)``, ``label`` ``(B,)`` or ``(B, L)``, ``index`` ``(B,)``, ``photo_size`` ``(B, 2)``; images
    that could not be read are left out (B may be 0) and listed in ``bad`` as (name, reason).
    """
    if isinstance(batch, dict):  # already one
        return {**batch, "bad": []}
    good = [sample for sample in batch if not isinstance(sample, BadImage)]
    bad = [sample for sample in batch if isinstance(sample, BadImage)]
    if good:
        stacked = default_collate(good)
    else:
        stacked = {key: value[:0] for key, value in default_collate([sample.blank for sample in bad]).items()}
    return {**stacked, "bad": [(sample.name, sample.reason) for sample in bad]}


def to_float(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Normalise a batch where it lies: uint8 ``(B, C, H, W)`` → float32, (pixels / 255 − mean) / std for each channel.

    >>> to_float(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8), [0.5], [0.25]).item()
    2.0
    """
    if images.dtype != torch.uint8 or images.ndim != 4:
        raise ValueError(f"images to normalise are uint8 (B, C, H, W), got {images.dtype} {tuple(images.shape)}")
    if not len(mean) == len(std) == images.shape[1]:
        raise ValueError(f"{images.shape[1]} channels need as many means and stds, got {len(mean)} and {len(std)}")
    pixels = images.float()
    mean_of, std_of = (numbers(tuple(values), like=pixels)[:, None, None] for values in (mean, std))
    return (pixels / 255 - mean_of) / std_of


def _sample(image: Tensor, label: Tensor, row: int, photo_size: Size) -> Sample:
    return {"image": image, "label": label, "index": row, "photo_size": torch.tensor(photo_size)}


def seen_sizes(table: ImageTable, batch: dict[str, Any]) -> list[tuple[int, int]]:
    """Height and width of what is looked at of each photo of a batch, as ``collate`` makes it."""
    photos = ((height, width) for height, width in batch["photo_size"].tolist())
    return [table.seen_size(row, photo) for row, photo in zip(batch["index"].tolist(), photos, strict=True)]
