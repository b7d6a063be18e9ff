"""What the rows of a table point at: a file, a member of a zip archive, an element of a torch Dataset."""

from __future__ import annotations

import os
import zipfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from tokenstn.data.images import UnreadableImageError, decode, from_pil, read_image, with_channels


@dataclass(frozen=True)
class ZipMember:
    """A file inside a zip archive."""

    archive: Path
    name: str

    def __str__(self) -> str:
        return f"{self.archive}/{self.name}"

    def content(self) -> bytes:
        """The bytes of the file."""
        try:
            return _archive(self.archive, os.getpid()).read(self.name)
        except (OSError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise UnreadableImageError(str(self), f"it cannot be read from the archive ({error})") from error

    def read(self, channels: int) -> Tensor:
        """The image, ``(channels, H, W)`` uint8."""
        return decode(self.content(), str(self), channels)


@dataclass(frozen=True, eq=False)
class DatasetMember:
    """An element of a torch Dataset, whose image is a PIL image or a tensor."""

    dataset: Any
    index: int

    def __str__(self) -> str:
        return f"{type(self.dataset).__name__}[{self.index}]"

    def read(self, channels: int) -> Tensor:
        """The image, ``(channels, H, W)`` uint8."""
        try:
            sample = self.dataset[self.index]
        except (OSError, SyntaxError, EOFError, ValueError) as error:  # what Pillow raises for a broken file
            raise UnreadableImageError(str(self), f"its data set cannot read it ({error})") from error
        image = sample[0] if isinstance(sample, tuple | list) else sample
        if isinstance(image, Image.Image):
            return from_pil(image, str(self), channels)
        if not isinstance(image, Tensor):
            raise UnreadableImageError(
                str(self), f"a data set gives PIL images or tensors (C, H, W), this one gave {type(image).__name__}"
            )
        return with_channels(_to_uint8(image, str(self)), channels)


Item = Path | ZipMember | DatasetMember


def read_item(item: Item, channels: int) -> Tensor:
    """The image that an item points at, ``(channels, H, W)`` uint8."""
    return read_image(item, channels) if isinstance(item, Path) else item.read(channels)


@lru_cache(maxsize=4)
def _archive(path: Path, process: int) -> zipfile.ZipFile:
    """An open archive, kept because its directory is slow to read; one per process, as they cannot share a position."""
    return zipfile.ZipFile(path)


def _to_uint8(image: Tensor, name: str) -> Tensor:
    image = image.unsqueeze(0) if image.ndim == 2 else image
    if image.ndim != 3 or image.shape[0] not in (1, 3, 4):
        raise UnreadableImageError(
            name, f"image tensors are (C, H, W) with 1, 3 or 4 channels, got {list(image.shape)}"
        )
    if image.dtype == torch.uint8:
        return image
    if not image.is_floating_point():
        raise UnreadableImageError(name, f"image tensors are uint8, or floating point in [0, 1]; got {image.dtype}")
    if not bool(((image >= 0) & (image <= 1)).all()):
        raise UnreadableImageError(
            name,
            f"its values go from {image.min():.3g} to {image.max():.3g}, and floating-point images lie in [0, 1]; "
            "give the data set without normalisation, which is done later",
        )
    return (image * 255).round().to(torch.uint8)
