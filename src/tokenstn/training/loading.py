"""The images of a table as a model wants them: prepared, in batches, in an order that only seed and epoch decide."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch.utils.data import DataLoader

from tokenstn.data import ImageDataset, ImageTable, collate
from tokenstn.models import Preprocessing
from tokenstn.training.order import EpochOrder

OnBad = Literal["raise", "skip"]


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
) -> DataLoader[Any]:
    """Batches of a split: shuffled anew in every epoch for training, as they come otherwise."""
    images, training = prepared(table, split, preprocessing, on_bad), split == "train"
    return DataLoader(
        images,
        batch_size=batch_size,
        sampler=EpochOrder(len(images), seed) if training else None,
        # a last batch that is short would weigh its images more; with fewer images than a batch it is all there is
        drop_last=training and len(images) > batch_size,
        num_workers=workers,
        collate_fn=collate,
        pin_memory=torch.cuda.is_available(),
        persistent_workers=workers > 0,
    )
