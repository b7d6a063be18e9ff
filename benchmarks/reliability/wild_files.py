"""Files as they lie in the wild: images of every format and mode, files that are none, and mutants of them all.

Everything is made here, from a few numbers; the same index gives the same mutant on every machine with the same Pillow.
"""

from __future__ import annotations

import io
import pickle
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageCms, PngImagePlugin

HEIGHT, WIDTH = 23, 36
ORIENTATION = 0x0112
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
PNG_HEAD = b"\x89PNG\r\n\x1a\n"

Seeds = dict[str, bytes]  # name, with a suffix → content


def scene(height: int = HEIGHT, width: int = WIDTH) -> Image.Image:
    """A smooth picture in colour in which no two places look alike."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / (5 + k) + k) * np.cos(y / (4 + k)) for k in range(3)]
    return Image.fromarray(((np.stack(waves, -1) + 1) * 127).astype(np.uint8))


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    """The file of an image."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


@cache
def images() -> Seeds:
    """Good files: every format that is read, in every mode that it has."""
    found: Seeds = {}
    for form, suffix, modes in (
        ("JPEG", "jpg", ("L", "RGB", "CMYK")),
        ("PNG", "png", ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")),
        ("GIF", "gif", ("1", "L", "P", "RGB", "RGBA")),
        ("BMP", "bmp", ("1", "L", "P", "RGB", "RGBA")),
        ("TIFF", "tif", ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "I;16", "I", "F")),
        ("WEBP", "webp", ("RGB", "RGBA")),
        ("AVIF", "avif", ("RGB", "RGBA")),
        ("JPEG2000", "jp2", ("L", "LA", "RGB", "RGBA", "I;16")),
        ("PPM", "ppm", ("1", "L", "RGB", "I;16")),
    ):
        for mode in modes:
            found[f"{form}-{mode.replace(';', '')}.{suffix}"] = encoded(_in_mode(mode), form)
            found[f"{form}-{mode.replace(';', '')}-one-pixel.{suffix}"] = encoded(
                _in_mode(mode).crop((0, 0, 1, 1)), form
            )
    return found | _with_more(scene()) | _animated(scene()) | _long()


@cache
def not_images() -> Seeds:
    """Files that are no images, whatever they are called."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(zipfile.ZipInfo("photo.png"), images()["PNG-RGB.png"])  # without the time of day
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n(/tmp/executed) (w) file closefile showpage\n"
    return {
        "empty.jpg": b"",
        "one-byte.png": b"\x89",
        "head-alone.png": PNG_HEAD,
        "text.jpg": b"This is a letter, not a photo.\n" * 40,
        "page.png": b"<!doctype html><html><body>404 Not Found</body></html>",
        "drawing.png": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
        "postscript.jpg": postscript,
        "document.tif": b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n",
        "archive.png": archive.getvalue(),
        "program.gif": b"\x7fELF\x02\x01\x01" + bytes(300),
        "pickle.webp": pickle.dumps({"weights": list(range(99))}),
        "zeros.bmp": bytes(5000),
        "noise.avif": random.Random(1).randbytes(5000),
    }


def odd_names() -> list[bytes]:
    """Names that a file may have, and that someone forgets to think of."""
    return [
        b"with spaces.png", b"two\nlines.png", b"tab\t.png", b"caf\xe9.png", b"caf\xe8.png", b"\xff\xfe.png",
        "\N{BUTTERFLY}.png".encode(), "e\u0301 and \u202e.png".encode(), b"-dash.png", b"'quotes\".png", b"=1+1.png",
        b"%s%n{0}.png", b"$(touch executed).png", b";rm -rf x.png", b"back\\slash.png", b"a" * 251 + b".png",
    ]  # fmt: skip


@cache
def bombs() -> Seeds:
    """Small files that would fill the memory, or take hours, if one believed what they say."""
    declared = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 6, 0, 0, 0)
    jpeg = bytearray(encoded(scene(), "JPEG"))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = struct.pack(">HH", 65_000, 65_000)
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", "\0" * 50_000_000, zip=True)
    return {
        "black-400-megapixels.png": black_png(20_000, 20_000),
        "declared-3600-megapixels.png": _png((b"IHDR", declared), (b"IDAT", zlib.compress(bytes(999))), (b"IEND", b"")),
        "declared-4225-megapixels.jpg": bytes(jpeg),
        "declared-4294-megapixels.gif": b"GIF89a\xff\xff\xff\xff\x80\0\0"
        + bytes(6)
        + b",\0\0\0\0\xff\xff\xff\xff\0\x02\0;",
        "declared-terapixels.ppm": b"P6 1000000 1000000 255\n" + bytes(100),
        "declared-terapixels.bmp": b"BM"
        + struct.pack("<IIIIiiHHIIIIII", 154, 0, 54, 40, 10**6, 10**6, 1, 24, 0, 0, 0, 0, 0, 0),
        "text-of-50-megabytes.png": encoded(scene(), "PNG", pnginfo=text),
        "many-scans.jpg": many_scans(4000, 4000, 20_000),
        "all-that-is-read-1-column.png": black_png(10_000_000, 1),
    }


def black_png(height: int, width: int) -> bytes:
    """A PNG of one bit for each pixel, all of them 0."""
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return _png((b"IHDR", head), (b"IDAT", zlib.compress(bytes(height * (1 + -(-width // 8))), 1)), (b"IEND", b""))


def many_scans(height: int, width: int, scans: int) -> bytes:
    """A grey progressive JPEG of a few bytes for each scan, every one of which goes over all blocks again."""
    blocks = -(-height // 8) * -(-width // 8)

    def segment(marker: int, content: bytes) -> bytes:
        return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content

    def scan(coefficient: int, data: bytes) -> bytes:
        return segment(0xDA, bytes((1, 1, 0, coefficient, coefficient, 0))) + data

    # one code of one bit each: DC "no difference", AC "a run of 2^14 and more blocks without a coefficient"
    bits = ("0" + "1" * 14) * (blocks // 32_767) + "0" * 15 * (blocks % 32_767 // 16_384)
    bits += "1" * (-len(bits) % 8) or "1" * 8 * (not bits)
    nothing = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    one_code = bytes((1, *([0] * 15)))
    tables = segment(0xDB, b"\0" + b"\x01" * 64)
    tables += segment(0xC2, struct.pack(">BHHB", 8, height, width, 1) + bytes((1, 0x11, 0)))
    tables += segment(0xC4, b"\x00" + one_code + b"\0") + segment(0xC4, b"\x10" + one_code + b"\xe0")
    others = b"".join(scan(1 + k % 63, nothing) for k in range(scans))
    return b"\xff\xd8" + tables + scan(0, bytes(-(-blocks // 8))) + others + b"\xff\xd9"


def mutants(count: int, first: int = 0) -> Iterator[tuple[str, bytes]]:
    """As many mutants of good files and of some that are none, each with a name."""
    seeds = list((_same_every_time() | not_images()).items())
    for index in range(first, first + count):
        chance = random.Random(index)
        name, content = chance.choice(seeds)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            content = chance.choice(MUTATIONS)(chance, content)
        stem, _, suffix = name.rpartition(".")
        if chance.random() < 0.1:
            suffix = chance.choice(("jpg", "png", "tif", "gif", "webp", "bmp"))
        yield f"{index:06d}-{stem}.{suffix}", content


def _flipped(chance: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[_place(chance, len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _overwritten(chance: random.Random, content: bytes) -> bytes:
    """A number somewhere, mostly in the head, becomes an extreme one."""
    kind = chance.choice(("<I", ">I", "<H", ">H", "B"))
    number = struct.pack(kind, chance.choice(EXTREMES) & ((1 << 8 * struct.calcsize(kind)) - 1))
    place = _place(chance, max(1, len(content)))
    return content[:place] + number + content[place + len(number) :]


def _truncated(chance: random.Random, content: bytes) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _without_a_part(chance: random.Random, content: bytes) -> bytes:
    place, length = _place(chance, max(1, len(content))), chance.choice((1, 4, 32, 256))
    return content[:place] + content[place + length :]


def _with_noise(chance: random.Random, content: bytes) -> bytes:
    place = _place(chance, max(1, len(content)))
    return content[:place] + chance.randbytes(chance.choice((1, 4, 32, 256))) + content[place:]


def _zeroed(chance: random.Random, content: bytes) -> bytes:
    place, length = _place(chance, max(1, len(content))), chance.choice((4, 32, 256))
    return content[:place] + bytes(len(content[place : place + length])) + content[place + length :]


def _repeated(chance: random.Random, content: bytes) -> bytes:
    place, length = _place(chance, max(1, len(content))), chance.choice((4, 32, 256))
    return (
        content[: place + length]
        + content[place : place + length] * chance.choice((1, 2, 50))
        + content[place + length :]
    )


def _spliced(chance: random.Random, content: bytes) -> bytes:
    other = chance.choice(list(_same_every_time().values()))
    return content[: chance.randrange(len(content) + 1)] + other[chance.randrange(len(other)) :]


def _sealed(chance: random.Random, content: bytes) -> bytes:
    """A PNG with a wrong chunk whose checksum is right, so that the chunk is believed."""
    if not content.startswith(PNG_HEAD):
        return _overwritten(chance, content)
    parts = list(_chunks(content))
    if not parts:
        return content
    place = chance.randrange(len(parts))
    kind, inside = parts[place]
    parts[place] = (kind, chance.choice((_flipped, _overwritten, _truncated))(chance, inside))
    return _png(*parts)


MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _flipped, _overwritten, _truncated, _without_a_part, _with_noise, _zeroed, _repeated, _spliced, _sealed,
)  # fmt: skip


@cache
def _same_every_time() -> Seeds:
    """The good files without a film that carries the time at which it was made."""
    return {name: content for name, content in images().items() if name != "AVIF-animated.avif"}


def _place(chance: random.Random, length: int) -> int:
    """Anywhere, but every fourth time in the head, where the numbers are that everything else depends on."""
    return chance.randrange(min(length, 200) if chance.random() < 0.25 else length)


def _in_mode(mode: str) -> Image.Image:
    if mode == "I;16":
        return Image.fromarray(np.asarray(scene().convert("L")).astype(np.uint16) * 257)
    if mode in ("RGBA", "LA"):
        clear = scene().convert(mode)
        clear.putalpha(scene().convert("L"))
        return clear
    return Image.fromarray(np.asarray(scene()), "LAB") if mode == "LAB" else scene().convert(mode)


def _with_more(image: Image.Image) -> Seeds:
    """Compression, metadata, depth and orientation in all their kinds."""
    exif = Image.Exif()
    exif[0x010E], exif[0x0132] = "a scene", "2024:02:30 25:61:00"
    exif.get_ifd(0x8769).update({0xA002: WIDTH, 0xA003: HEIGHT, 0x9286: b"ASCII\0\0\0hello"})
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    profile = profile[:24] + bytes(12) + profile[36:]  # without the time at which it was made
    text = PngImagePlugin.PngInfo()
    text.add_text("Title", "a scene")
    text.add_itxt("Titel", "eine Szene", "de", "Titel", zip=True)
    deep = np.asarray(image).astype(np.uint16) * 257
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in deep)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, 2, 0, 0, 0)
    found = {
        "JPEG-progressive.jpg": encoded(image, "JPEG", progressive=True, quality=60),
        "JPEG-metadata.jpg": encoded(image, "JPEG", exif=exif, icc_profile=profile, comment=b"hi", xmp=b"<x/>"),
        "PNG-metadata.png": encoded(image, "PNG", exif=exif, icc_profile=profile, pnginfo=text, dpi=(72, 72)),
        "PNG-clear-colour.png": encoded(image, "PNG", transparency=(9, 9, 9)),
        "PNG-clear-palette.png": encoded(image.convert("P"), "PNG", transparency=bytes(range(256))),
        "PNG-48-bits.png": _png((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")),
        "WEBP-lossless.webp": encoded(image, "WEBP", lossless=True, exif=exif),
        "TIFF-metadata.tif": encoded(image, "TIFF", exif=exif, icc_profile=profile, dpi=(72, 72)),
    }  # fmt: skip
    for compression in ("tiff_lzw", "tiff_deflate", "packbits", "jpeg"):
        found[f"TIFF-{compression}.tif"] = encoded(image, "TIFF", compression=compression)
    found["TIFF-group4.tif"] = encoded(image.convert("1"), "TIFF", compression="group4")
    for orientation in (0, 2, 3, 4, 5, 6, 7, 8, 9, 60_000):
        turned = Image.Exif()
        turned[ORIENTATION] = orientation
        for form, suffix in (("JPEG", "jpg"), ("PNG", "png"), ("TIFF", "tif"), ("WEBP", "webp"), ("AVIF", "avif")):
            if form != "AVIF" or orientation in (3, 6):
                found[f"{form}-orientation-{orientation}.{suffix}"] = encoded(image, form, exif=turned)
    return found


def _animated(image: Image.Image) -> Seeds:
    frames = {"save_all": True, "append_images": [image.rotate(90), image.rotate(180)]}
    suffixes = {"GIF": "gif", "PNG": "png", "WEBP": "webp", "TIFF": "tif", "AVIF": "avif", "MPO": "jpg"}
    return {f"{form}-animated.{suffix}": encoded(image, form, **frames) for form, suffix in suffixes.items()}


def _long() -> Seeds:
    return {
        f"{form}-{width}x{height}.{suffix}": encoded(scene(height, width), form)
        for form, suffix in (("JPEG", "jpg"), ("PNG", "png"))
        for width, height in ((30_000, 10), (10, 30_000), (1, 3_000), (3_000, 1))
    }


def _png(*chunks: tuple[bytes, bytes]) -> bytes:
    return PNG_HEAD + b"".join(
        struct.pack(">I", len(inside)) + kind + inside + struct.pack(">I", zlib.crc32(kind + inside))
        for kind, inside in chunks
    )


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(PNG_HEAD)
    while place + 12 <= len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        yield content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        place += 12 + length
