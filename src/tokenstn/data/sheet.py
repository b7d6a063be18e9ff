"""A contact sheet: small pictures in rows on white, so that a person can see many at a glance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from torch import Tensor
from torch.nn import functional as F

SIDE, GAP, LINE = 96, 4, 14  # pixels: of a picture, between two, and of a line of text


def write_sheet(
    tiles: Sequence[Tensor | None],
    path: Path,
    columns: int = 6,
    side: int = SIDE,
    titles: Sequence[str] | None = None,
) -> None:
    """Write pictures, uint8 ``(1 | 3, H, W)`` of any size, as one PNG; None leaves a place empty.

    Args:
        side: of each place, in pixels.
        titles: one above each picture, which then keeps its aspect; without them all pictures are squares.
    """
    line = 0 if titles is None else LINE
    rows = math.ceil(len(tiles) / columns)
    corners = [
        (GAP + place // columns * (side + GAP + line), GAP + place % columns * (side + GAP))
        for place in range(len(tiles))
    ]
    sheet = torch.full((3, rows * (side + GAP + line) + GAP, columns * (side + GAP) + GAP), 255, dtype=torch.uint8)
    for (top, left), tile in zip(corners, tiles, strict=True):
        if tile is not None:
            shown = shrunk(tile, side, keep_aspect=titles is not None)
            left += (side - shown.shape[2]) // 2
            sheet[:, top + line : top + line + shown.shape[1], left : left + shown.shape[2]] = shown
    image = Image.fromarray(sheet.permute(1, 2, 0).numpy())
    pen = ImageDraw.Draw(image)
    for (top, left), title in zip(corners, titles or (), strict=False):
        pen.text((left, top), title, fill=(60, 60, 60), font_size=LINE - 3)
    image.save(path)


def shrunk(tile: Tensor, side: int, keep_aspect: bool) -> Tensor:
    """A picture, uint8 ``(1 | 3, H, W)``, in colour and as large as its place: a square, or within one."""
    size = (side, side)
    if keep_aspect:
        longer = max(tile.shape[-2:])
        size = (max(1, round(side * tile.shape[-2] / longer)), max(1, round(side * tile.shape[-1] / longer)))
    pixels = tile.expand(3, -1, -1).float()[None]
    return F.interpolate(pixels, size=size, mode="bilinear", antialias=True)[0].round().to(torch.uint8)
