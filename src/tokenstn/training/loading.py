"""The images of a table as a model wants them: prepared, in batches, in an order that only seed and epoch decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader

from tokenstn.data import ImageDataset, ImageTable, collate
from tokenstn.models import Preprocessing
from tokenstn.system.processes import reads_for_another
from tokenstn.training.held import HeldImages, can_be_held
from tokenstn.training.order import EpochOrder

OnBad = Literal["raise", "skip"]


class EpochLoader(DataLoader[Any]):
    """Batches in an ``EpochOrder``; its state is the place where it is, so that a run can go on in mid-epoch."""

    sampler: EpochOrder  # pyright: ignore[reportIncompatibleVariableOverride]
    given = 0  # batches of this epoch that were handed out

    def __iter__(self) -> Iterator[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        # a generator: workers begin to read when the first batch is wanted, which is after the epoch was set
        self.given = self.sampler.skipped // (self.batch_size or 1)
        for batch in super().__iter__():
            self.given += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Which epoch, and how many of its batches are done, in how many processes."""
        epoch, done = self.sampler.epoch, self.given
        if done >= len(self):
            epoch, done = epoch + 1, 0
        return {"epoch": epoch, "batches": done, "processes": self.sampler.processes}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Begin where another left off."""
        if state["batches"] and state["processes"] != self.sampler.processes:
            raise ValueError(
                f"the run was stopped in the middle of an epoch with {state['processes']} processes, and there are "
                f"{self.sampler.processes} now: go on with as many devices as before"
            )
        self.sampler.begin(state["epoch"], state["batches"] * (self.batch_size or 1))


def prepared(table: ImageTable, split: str, preprocessing: Preprocessing, on_bad: OnBad = "raise") -> ImageDataset:
    """The images of a split, fitted as the preprocessing says, in as many channels as it has statistics for."""
    return ImageDataset(table, split, **preprocessing.fitting, on_bad=on_bad)


def load(
    table: ImageTable,
    split: str,
    preprocessing: Preprocessing,
    batch_size: int,
    seed: int = 0,
    workers: int = 0,
    on_bad: OnBad = "raise",
    *,
    hold: bool = False,
    progress: bool = False,
) -> DataLoader[Any]:
    """Batches of a split: shuffled anew in every epoch for training, as they come otherwise.

    Args:
        workers: processes that read images; threads, where the split is held in memory.
        hold: read the split now and hold it in memory, unless it is too large; batches are then for
            ``Training.transfer_batch_to_device``.
        progress: show a bar while it is read.
    """
    images, training = prepared(table, split, preprocessing, on_bad), split == "train"
    held = HeldImages(images, workers, progress) if hold and can_be_held(images) else None
    workers = workers if held is None else 0
    kind = EpochLoader if training else DataLoader
    return kind(
        images if held is None else held,
        batch_size=batch_size,
        sampler=EpochOrder(len(images), seed) if training else None,
        # a last batch that is short would weigh its images more; with fewer images than a batch it is all there is
        drop_last=training and len(images) > batch_size,
        num_workers=workers,
        collate_fn=collate if held is None else held.collate,
        pin_memory=held is None and torch.cuda.is_available(),
        persistent_workers=workers > 0,
        worker_init_fn=reads_for_another,
    )
