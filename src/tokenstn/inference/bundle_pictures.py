"""Image files to check a bundle on: those that somebody names, else digits from inside the package."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from tokenstn.data import ImageTable, UnreadableImageError, ZipMember, read_mnist_mini

EXIF_ORIENTATION = 0x0112
ON_ITS_SIDE = 6  # to be turned by 90° to the right
MOST = 11 * 16  # digits on the largest picture


def pictures_of(table: ImageTable, rows: Tensor) -> dict[str, bytes]:
    """The files of some rows ``(n,)`` by name; images in memory become PNG. What cannot be read is left out."""
    found: dict[str, bytes] = {}
    for row in rows.tolist():
        item = table.items[row]
        with suppress(UnreadableImageError, OSError):
            pixels = table.read(row)
            if isinstance(item, Path):
                found[table.item_name(row)] = item.read_bytes()
            elif isinstance(item, ZipMember):
                found[table.item_name(row)] = item.content()
            else:
                found[table.item_name(row)] = as_png(pixels)
    return found


def as_png(pixels: Tensor) -> bytes:
    """An image uint8 ``(1 | 3, H, W)`` as the bytes of a file."""
    return _png(Image.fromarray(pixels.movedim(0, -1).squeeze(-1).numpy()))


def embedded_pictures() -> dict[str, bytes]:
    """PNG files by name: small and large, high and wide, grey, in colour, transparent, and with an orientation tag.

    >>> list(embedded_pictures())
    ['digit.png', 'row.png', 'sheet.png', 'clear.png', 'turned.png']
    """
    table = read_mnist_mini()
    digits = np.stack([table.read(row, channels=1)[0].numpy() for row in range(MOST)])
    sheet = Image.fromarray(_mosaic(digits, rows=11, columns=16))
    ink = np.asarray(Image.fromarray(_mosaic(digits, rows=3, columns=4)).resize((150, 110)))
    colour = Image.merge("RGB", (sheet, sheet.transpose(Image.Transpose.ROTATE_180), Image.new("L", sheet.size, 90)))
    clear = Image.fromarray(np.stack((255 - ink, ink, ink // 2, ink), -1))
    turned = Image.Exif()
    turned[EXIF_ORIENTATION] = ON_ITS_SIDE
    return {
        "digit.png": _png(Image.fromarray(digits[0])),
        "row.png": _png(Image.fromarray(_mosaic(digits, rows=1, columns=3))),
        "sheet.png": _png(colour),
        "clear.png": _png(clear),
        "turned.png": _png(Image.fromarray(_mosaic(digits, rows=2, columns=3)), exif=turned),
    }


def _mosaic(digits: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.uint8]:
    tiles = digits[: rows * columns].reshape(rows, columns, *digits.shape[1:])
    return np.ascontiguousarray(tiles.swapaxes(1, 2).reshape(rows * digits.shape[1], columns * digits.shape[2]))


def _png(image: Image.Image, exif: Image.Exif | None = None) -> bytes:
    content = io.BytesIO()
    image.save(content, "png", **({} if exif is None else {"exif": exif}))
    return content.getvalue()
