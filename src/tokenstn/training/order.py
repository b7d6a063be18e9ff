"""The order of the training images: a function of (seed, epoch) alone, dealt out to processes in turn."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import distributed
from torch.utils.data import Sampler


class EpochOrder(Sampler[int]):
    """A new permutation of ``count`` images for every epoch, the same in whatever process and after a restart.

    Process r of w takes every w-th image, so that w batches of b hold the same images as one batch of w · b.

    >>> order = EpochOrder(6, seed=0)
    >>> sorted(order) == list(range(6))
    True
    """

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed, self.epoch = count, seed, 0
        self._begun = (0, 0)  # an epoch, and how many of its images are done in this process

    @property
    def processes(self) -> int:
        """How many share an epoch."""
        return _place()[1]

    @property
    def skipped(self) -> int:
        """How many images of the epoch are left out here, because they were done before a restart."""
        return self._begun[1] if self.epoch == self._begun[0] else 0

    def begin(self, epoch: int, done: int) -> None:
        """Go on in an epoch of which this process has done so many images already."""
        self.epoch, self._begun = epoch, (epoch, done)

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning before each epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self.epoch) % 2**31)
        rank, world = _place()
        mine = torch.randperm(self.count, generator=generator)[rank::world][: len(self)]
        return iter(mine[self.skipped :].tolist())

    def __len__(self) -> int:
        return self.count // _place()[1]


def _place() -> tuple[int, int]:
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
