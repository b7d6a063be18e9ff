"""One image file, or anything like one, as a uint8 tensor: whatever its mode, depth or orientation tag."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import torch
from PIL import ExifTags, Image
from torch import Tensor

from tokenstn.data.opening import PIXEL_LIMIT, UnreadableImageError, opened

__all__ = ["PIXEL_LIMIT", "UnreadableImageError", "decode", "from_pil", "read_file", "read_image", "with_channels"]

BYTE_LIMIT = 2**31  # of a file; 16 bits in four channels of every pixel that is allowed are less
BAND = 16_000_000  # pixels that are brought to 8 bits at once
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # by the orientation tag: what makes the image upright


def read_image(source: str | Path | bytes, channels: int = 3) -> Tensor:
    """Read an image file, or the bytes of one: ``(channels, H, W)`` uint8, turned as its EXIF tag says.

    Transparency is composited on white, 16 bits are scaled to 8 by their full range (0…65535 → 0…255), colour becomes
    grey by luma, and of several frames the first is read.

    Raises:
        UnreadableImageError: missing, empty, truncated, corrupt, no image, or above ``PIXEL_LIMIT`` pixels. Which
            formats there are is decided by the content, see ``opening.FORMATS``.
    """
    require_channels(channels)
    if isinstance(source, bytes):
        return decode(source, f"an image of {len(source)} bytes", channels)
    return decode(read_file(Path(source)), str(source), channels)


def read_file(path: Path) -> bytes:
    """The bytes of an image file, or a reason why there are none."""
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise UnreadableImageError(str(path), "this is a folder, not an image")
        if not stat.S_ISREG(found.st_mode):  # reading a pipe would wait for ever
            raise UnreadableImageError(str(path), "this is a device or a pipe, not a file")
        if found.st_size > BYTE_LIMIT:
            raise UnreadableImageError(
                str(path), f"{found.st_size:,} bytes are more than the {BYTE_LIMIT:,} that are read"
            )
        return path.read_bytes()
    except FileNotFoundError:
        link = path.is_symlink()
        raise UnreadableImageError(
            str(path), "this is a link to a file that is not there" if link else "there is no such file"
        ) from None
    except OSError as error:
        raise UnreadableImageError(str(path), f"it cannot be opened ({error.strerror or error})") from error


def decode(content: bytes, name: str, channels: int, limit: int | None = None) -> Tensor:
    """The image in the bytes of a file, ``(channels, H, W)`` uint8; ``name`` is for the error, ``limit`` of pixels."""
    with opened(content, name, limit) as image:
        image.load()
        return from_pil(_as_seen(image), name, channels)


def from_pil(image: Image.Image, name: str, channels: int) -> Tensor:
    """A PIL image of any mode as ``(channels, H, W)`` uint8.

    Its channels stand together in memory, as those of the file do: copying them apart would take as long as decoding,
    and resizing them three times as long.
    """
    if image.mode == "F":
        raise UnreadableImageError(name, "floating-point pixels have no known range; save it with 8 or 16 bits")
    pixels, mode = torch.empty(image.height, image.width, channels, dtype=torch.uint8), "L" if channels == 1 else "RGB"
    rows = max(1, BAND // image.width)  # a large photo in bands: it is not to be in memory several times
    for top in range(0, image.height, rows):
        bottom = min(top + rows, image.height)
        band = image if rows >= image.height else image.crop((0, top, image.width, bottom))
        opaque = _to_8_bits(band, name)
        values = torch.from_numpy(np.array(opaque if opaque.mode == mode else opaque.convert(mode)))
        pixels[top:bottom] = values.unsqueeze(-1) if channels == 1 else values
    return pixels.movedim(-1, 0)


def with_channels(image: Tensor, channels: int) -> Tensor:
    """A uint8 image ``(1 | 3 | 4, H, W)`` with 1 or 3 channels, by the rules of ``read_image``.

    >>> with_channels(torch.tensor([[[200]]], dtype=torch.uint8), 3).flatten()
    tensor([200, 200, 200], dtype=torch.uint8)
    """
    require_channels(channels)
    if image.shape[0] == channels:
        return image
    if image.shape[0] == 4:
        colour, alpha = image[:3].float(), image[3:].float() / 255
        image = (colour * alpha + 255 * (1 - alpha)).round().to(torch.uint8)
    if image.shape[0] not in (1, 3):
        raise ValueError(f"an image has 1, 3 or 4 channels in front, (C, H, W); got {tuple(image.shape)}")
    if image.shape[0] == channels:
        return image
    if channels == 3:
        return image.repeat(3, 1, 1)
    luma = torch.tensor([0.299, 0.587, 0.114])[:, None, None]
    return (image.float() * luma).sum(0, keepdim=True).round().to(torch.uint8)


def require_channels(channels: int) -> None:
    """Refuse a number of channels that images are not read with."""
    if channels not in (1, 3):
        raise ValueError(f"images are read with 1 channel (grey) or 3 (colour), got channels={channels}")


def _as_seen(image: Image.Image) -> Image.Image:
    """The image turned and mirrored as its orientation tag says; what else the EXIF holds does not matter.

    ``ImageOps.exif_transpose`` would write all tags anew, and fail where one of them is of a wrong type.
    """
    try:
        turn = TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # bytes that are no EXIF can fail in any way, and say nothing about the orientation
        return image
    if turn is None:
        return image
    turned = image.transpose(turn)
    image.close()  # it is not to be in memory twice
    return turned


def _to_8_bits(image: Image.Image, name: str) -> Image.Image:
    """An opaque image in grey or colour, with 8 bits for each."""
    if image.mode.startswith("I"):
        return _from_16_bits(image, name)
    if image.has_transparency_data:
        opaque = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", opaque.size, "white"), opaque).convert("RGB")
    return image if image.mode in ("L", "RGB", "1") else image.convert("RGB")


def _from_16_bits(image: Image.Image, name: str) -> Image.Image:
    values = np.asarray(image).astype(np.int32)
    if values.size and (values.min() < 0 or values.max() > 65535):
        raise UnreadableImageError(
            name,
            f"its pixels go from {values.min()} to {values.max()}, and integers are read up to 16 bits (0 to 65535); "
            "save it with 8 or 16 bits",
        )
    return Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
