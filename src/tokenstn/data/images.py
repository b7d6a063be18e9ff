"""One image file, or anything like one, as a uint8 tensor: whatever its mode, depth or orientation tag."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

PIXEL_LIMIT = 178_956_970  # what Pillow itself calls a decompression bomb


class UnreadableImageError(ValueError):
    """An image that cannot be used. The message names the file and the reason; ``reason`` is the latter alone."""

    def __init__(self, name: str, reason: str = "") -> None:
        super().__init__(f"{name}: {reason}" if reason else name)
        self.reason = reason or name


def read_image(source: str | Path | bytes, channels: int = 3) -> Tensor:
    """Read an image file, or the bytes of one: ``(channels, H, W)`` uint8, turned as its EXIF tag says.

    Transparency is composited on white, 16 bits are scaled to 8 by their full range (0…65535 → 0…255), colour becomes
    grey by luma, and of several frames the first is read.

    Raises:
        UnreadableImageError: missing, empty, truncated, corrupt, no image, or above ``PIXEL_LIMIT`` pixels.
    """
    require_channels(channels)
    if isinstance(source, bytes):
        return decode(source, f"an image of {len(source)} bytes", channels)
    return decode(read_file(Path(source)), str(source), channels)


def read_file(path: Path) -> bytes:
    """The bytes of an image file, or a reason why there are none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UnreadableImageError(str(path), "there is no such file") from None
    except IsADirectoryError:
        raise UnreadableImageError(str(path), "this is a folder, not an image") from None
    except OSError as error:
        raise UnreadableImageError(str(path), f"it cannot be opened ({error.strerror or error})") from error


def decode(content: bytes, name: str, channels: int) -> Tensor:
    """The image in the bytes of a file, ``(channels, H, W)`` uint8; ``name`` is for the error."""
    if not content:
        raise UnreadableImageError(name, "the file is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit is ours, below
            image = Image.open(io.BytesIO(content))
        if image.width * image.height > PIXEL_LIMIT:
            raise UnreadableImageError(name, _too_large(f"{image.width} × {image.height} pixels are"))
        image.load()
        image = ImageOps.exif_transpose(image)
    except UnreadableImageError:
        raise
    except Image.DecompressionBombError:
        raise UnreadableImageError(name, _too_large("it is")) from None
    except Image.UnidentifiedImageError:
        raise UnreadableImageError(
            name, "it is not an image in a format that is read, or its header is broken"
        ) from None
    except Exception as error:  # decoders of broken files raise whatever they stumble over
        raise UnreadableImageError(name, f"the file is truncated or corrupt ({error})") from error
    return from_pil(image, name, channels)


def from_pil(image: Image.Image, name: str, channels: int) -> Tensor:
    """A PIL image of any mode as ``(channels, H, W)`` uint8."""
    if image.mode == "F":
        raise UnreadableImageError(name, "floating-point pixels have no known range; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        image = _to_8_bits(image, name)
    elif image.has_transparency_data:
        opaque = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", opaque.size, "white"), opaque).convert("RGB")
    elif image.mode not in ("L", "RGB", "1"):
        image = image.convert("RGB")
    image = image.convert("L" if channels == 1 else "RGB")
    pixels = torch.from_numpy(np.array(image, dtype=np.uint8))
    return pixels.unsqueeze(0) if channels == 1 else pixels.movedim(-1, 0).contiguous()


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


def _to_8_bits(image: Image.Image, name: str) -> Image.Image:
    values = np.asarray(image).astype(np.int32)
    if values.size and (values.min() < 0 or values.max() > 65535):
        raise UnreadableImageError(
            name,
            f"its pixels go from {values.min()} to {values.max()}, and integers are read up to 16 bits (0 to 65535); "
            "save it with 8 or 16 bits",
        )
    return Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))


def _too_large(what: str) -> str:
    return f"{what} more than the {PIXEL_LIMIT:,} pixels that are read; make it smaller, or cut it into tiles"
