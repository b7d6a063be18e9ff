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

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning before each epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self.epoch) % 2**31)
        rank, world = _place()
        return iter(torch.randperm(self.count, generator=generator)[rank::world][: len(self)].tolist())

    def __len__(self) -> int:
        return self.count // _place()[1]


def _place() -> tuple[int, int]:
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
