"""A contact sheet of training images, so that a person can see whether they are upright."""

from __future__ import annotations

from pathlib import Path

import torch

from tokenstn.data import BadImage, ImageDataset
from tokenstn.data.sheet import write_sheet
from tokenstn.system.files import written_whole


def write_contact_sheet(images: ImageDataset, path: Path, count: int = 36, seed: int = 0) -> None:
    """Write ``count`` random images of a data set as one PNG, in rows of six."""
    rows = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:count].tolist()
    samples = [images[row] for row in rows]
    with written_whole(path) as beside:
        write_sheet([None if isinstance(sample, BadImage) else sample["image"] for sample in samples], beside)
