"""An image file opened as far as its head: what is refused before a pixel of it is decoded.

Pillow reads some forty formats, of which EPS would start another program, and believes what a head says. Here only the
formats of ``paths.IMAGE_SUFFIXES`` are tried, by content and not by name, and a file that is small but would fill the
memory, or take hours, is not begun with.
"""

from __future__ import annotations

import io
import logging
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import Image

from tokenstn.system.documents import in_short

PIXEL_LIMIT = 178_956_970  # what Pillow itself calls a decompression bomb
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "AVIF", "JPEG2000", "PPM")
MOST_SCANS = 100  # of a JPEG, each of which goes over the whole picture; programs write a dozen
_AFTER_SCAN = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # the marker behind the data of a scan
_BARE_MARKERS = (0x01, *range(0xD0, 0xD9))  # those without a length

# Pillow logs what it raises anyway; where nobody has asked for logs, Python would write that to the screen
logging.getLogger("PIL").addHandler(logging.NullHandler())


class UnreadableImageError(ValueError):
    """An image that cannot be used. The message names the file and the reason; ``reason`` is the latter alone."""

    def __init__(self, name: str, reason: str = "") -> None:
        super().__init__(f"{name}: {reason}" if reason else name)
        self.reason = reason or name


class TooManyPixelsError(UnreadableImageError):
    """An image that is larger than those that are read."""


@contextmanager
def opened(content: bytes, name: str, limit: int | None = None) -> Iterator[Image.Image]:
    """The image in the bytes of a file, of which only the head was read, for a block that decodes it.

    Whatever a decoder raises in the block becomes an ``UnreadableImageError``; what it warns of is not shown, because
    there would be no end of it and the file is either read or refused. ``name`` is for the error; ``limit``: of pixels.
    """
    limit = PIXEL_LIMIT if limit is None else limit
    if not content:
        raise UnreadableImageError(name, "the file is empty")
    try:
        with quiet:
            image = Image.open(io.BytesIO(content), formats=FORMATS)
            if image.width * image.height > limit:
                raise TooManyPixelsError(name, _too_large(f"{image.width} × {image.height} pixels are", limit))
            if image.width * image.height == 0:
                raise UnreadableImageError(name, "it has no pixels")
            if image.format in ("JPEG", "MPO"):
                _require_few_scans(content, name)
            yield image
    except UnreadableImageError:
        raise
    except Image.DecompressionBombError:
        raise TooManyPixelsError(name, _too_large("it is", limit)) from None
    except Image.UnidentifiedImageError:
        raise UnreadableImageError(
            name, "it is not an image in a format that is read, or its header is broken"
        ) from None
    except MemoryError as error:
        raise UnreadableImageError(name, "there is not enough memory for it") from error
    except Exception as error:  # decoders of broken files raise whatever they stumble over
        raise UnreadableImageError(name, f"the file is truncated or corrupt ({in_short(error)})") from error


class _Quiet:
    """No warnings of Pillow while any thread is inside; ``warnings.catch_warnings`` alone knows only one thread."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\b")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._before.__exit__(None, None, None)


quiet = _Quiet()


def _require_few_scans(content: bytes, name: str) -> None:
    """Refuse a JPEG that is made to take for ever: half a megabyte of scans keeps a core busy for a minute."""
    place, scans = 2, 0
    while place + 4 <= len(content) and content[place] == 0xFF:
        marker = content[place + 1]
        if marker == 0xD9:  # the end; what follows is a preview, a depth map or a film
            return
        if marker == 0xFF or marker in _BARE_MARKERS:
            place += 1 if marker == 0xFF else 2
            continue
        place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
        if marker == 0xDA:
            scans += 1
            if scans > MOST_SCANS:
                raise UnreadableImageError(
                    name, f"it has more than {MOST_SCANS} scans, which would take for ever; save it anew"
                )
            following = _AFTER_SCAN.search(content, place)
            if following is None:
                return
            place = following.start()


def _too_large(what: str, limit: int) -> str:
    return f"{what} more than the {limit:,} pixels that are read; make it smaller, or cut it into tiles"
