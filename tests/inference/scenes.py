"""Photos that are smooth, so that what a warp does to them can be told from what it should do."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image


def scene(height: int, width: int, channels: int = 3, top: float = 255.0) -> np.ndarray:
    """Waves of a few tens of pixels, float64 ``(H, W, C)`` from 0 to ``top``; no two places look alike."""
    y, x = np.mgrid[:height, :width] / 24.0
    waves = [
        np.sin(x + 0.3 * k) * np.cos(0.7 * y - k) + 0.5 * np.sin(0.31 * x * (k + 1) + 0.23 * y) for k in range(channels)
    ]
    return (np.stack(waves, -1) / 3 + 0.5) * top


def photo(height: int, width: int, channels: int = 3) -> np.ndarray:
    pixels = scene(height, width, channels).round().astype(np.uint8)
    return pixels[..., 0] if channels == 1 else pixels


def inside(height: int, width: int, share: float) -> np.ndarray:
    """A disc around the centre, of a share of half the shorter side: ``(H, W)`` bool."""
    y, x = np.mgrid[:height, :width]
    return np.hypot(x + 0.5 - width / 2, y + 0.5 - height / 2) < share * min(height, width) / 2


def jpeg(pixels: np.ndarray, **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="JPEG", **options)
    return file.getvalue()


def opened(path: Path) -> Image.Image:
    """An image file, read and closed."""
    return Image.open(io.BytesIO(path.read_bytes()))


def deep_png(pixels: np.ndarray) -> bytes:
    """A PNG of 16 bits for each colour, uint16 ``(H, W, 3)``, or grey and alpha, which Pillow cannot write."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width, channels = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, {2: 4, 3: 2}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def declare(path: Path, mark: bytes, different: dict[int, int]) -> None:
    """Change bytes of a file, by their place behind a mark: what its header says of itself."""
    content = bytearray(path.read_bytes())
    start = content.index(mark) + len(mark)
    for place, value in different.items():
        content[start + place] = value
    path.write_bytes(content)


def tiff(pixels: np.ndarray, order: str = "<") -> bytes:
    """A TIFF of 16 bits, uint16 ``(H, W, 1 | 3)``, in an order of bytes: in colour, or ">", Pillow cannot write it."""
    height, width, channels = pixels.shape
    long, colour = 4, channels == 3
    tags = [  # width, height, bits, compression, photometric, where, channels, rows of a strip, bytes
        (256, long, 1, width), (257, long, 1, height), (258, 3, channels, 8), (259, long, 1, 1),
        (262, long, 1, 2 if colour else 1), (273, long, 1, 14), (277, long, 1, channels), (278, long, 1, height),
        (279, long, 1, pixels.nbytes),
    ]  # fmt: skip
    packed = [struct.pack(f"{order}HHII", *tag) for tag in tags]
    if not colour:  # a value that fits stands where else its place would
        packed[2] = struct.pack(f"{order}HHIHH", 258, 3, 1, 16, 0)
    directory = struct.pack(f"{order}H", len(tags)) + b"".join(packed) + b"\0\0\0\0"
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 14 + pixels.nbytes)
    return head + struct.pack(f"{order}HHH", 16, 16, 16) + pixels.astype(f"{order}u2").tobytes() + directory
