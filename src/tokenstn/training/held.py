"""A split that is read once and held in memory: on the device where it fits there, so that no step waits for images.

What a network sees of a photo is small: a thousand of 224×224 pixels are 150 MB. So a split of moderate size is decoded
and fitted once, by several threads, and a batch is a choice of rows. A larger split is read anew in every epoch, by as
many processes as ``workers`` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from rich.progress import track
from torch import Tensor
from torch.utils.data import Dataset

from tokenstn.data import ImageDataset, collate
from tokenstn.system.processes import usable_cores

MOST_BYTES = 4 * 2**30  # of a split that is held in memory
READ_TOGETHER = 32
MOST_THREADS = 8
DEVICE_SHARE = 0.1  # of a device's free memory that a split may take


class HeldImages(Dataset[int]):
    """The images of a split in memory. Its elements are their places; ``collate`` and ``on`` make batches of these.

    Args:
        images: the split, fitted to the network.
        threads: how many read at the same time; as many as there are cores, up to 8, when 0.
        progress: show a bar while they are read.
    """

    def __init__(self, images: ImageDataset, threads: int = 0, progress: bool = False) -> None:
        count = len(images)
        self.pixels = torch.zeros(count, images.channels, *images.size, dtype=torch.uint8)
        self.rows, self.labels = images.rows, images.table.labels[images.rows]
        self.bad: dict[int, tuple[str, str]] = {}  # place → name and reason
        self._there: dict[torch.device, Tensor] = {}
        parts = torch.arange(count).split(READ_TOGETHER)
        with ThreadPoolExecutor(threads or min(MOST_THREADS, usable_cores())) as pool:
            read = pool.map(lambda places: collate(images.__getitems__(places.tolist())), parts)
            for places, batch in zip(parts, track(read, "reading", len(parts), disable=not progress), strict=True):
                good = torch.isin(self.rows[places], batch["index"])
                self.pixels[places[good]] = batch["image"]
                self.bad.update(zip(places[~good].tolist(), batch["bad"], strict=True))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> int:
        return place

    def collate(self, places: Sequence[int]) -> dict[str, Any]:
        """A batch as ``data.collate`` makes it, but for the pixels, which ``on`` adds where they are needed."""
        good = torch.tensor([place for place in places if place not in self.bad], dtype=torch.int64)
        bad = [self.bad[place] for place in places if place in self.bad]
        return {"held": self, "places": good, "label": self.labels[good], "index": self.rows[good], "bad": bad}

    def on(self, device: torch.device, places: Tensor) -> Tensor:
        """The images at some places, ``(B, C, h, w)`` uint8 on a device."""
        if device.type != "cuda":
            return self.pixels[places].to(device)
        if device not in self._there:
            free, _ = torch.cuda.mem_get_info(device)
            fits = self.pixels.nbytes <= DEVICE_SHARE * free
            self._there[device] = self.pixels.to(device) if fits else self.pixels
        pixels = self._there[device]
        return pixels[places.to(pixels.device, non_blocking=True)].to(device, non_blocking=True)


def can_be_held(images: ImageDataset) -> bool:
    """Whether the split is small enough."""
    return len(images) * images.channels * math.prod(images.size) <= MOST_BYTES
