"""A contact sheet of training images, so that a person can see whether they are upright."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from PIL import Image
from torch.nn import functional as F

from tokenstn.data import BadImage, ImageDataset

SIDE, GAP = 96, 4  # pixels


def write_contact_sheet(images: ImageDataset, path: Path, count: int = 36, seed: int = 0) -> None:
    """Write ``count`` random images of a data set as one PNG, in rows of six."""
    rows = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:count].tolist()
    columns = 6
    sheet = torch.full((3, math.ceil(len(rows) / columns) * (SIDE + GAP) + GAP, columns * (SIDE + GAP) + GAP), 255)
    for place, row in enumerate(rows):
        sample = images[row]
        if isinstance(sample, BadImage):
            continue
        tile = sample["image"].expand(3, -1, -1).float()[None]
        shown = F.interpolate(tile, size=(SIDE, SIDE), mode="bilinear", antialias=True)[0].round()
        top, left = GAP + place // columns * (SIDE + GAP), GAP + place % columns * (SIDE + GAP)
        sheet[:, top : top + SIDE, left : left + SIDE] = shown.long()
    Image.fromarray(sheet.to(torch.uint8).permute(1, 2, 0).numpy()).save(path)
