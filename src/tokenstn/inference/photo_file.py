"""A photo as its file has it: pixels in their own mode and depth, and all that goes with them, to be written again.

``data.read_image`` makes everything 8-bit grey or colour for a network; here nothing is given up that a person would
miss: format, compression, depth, transparency, EXIF, colour profile, resolution, text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageOps, JpegImagePlugin, PngImagePlugin

from tokenstn.data.opening import UnreadableImageError, opened, quiet
from tokenstn.inference.tiles import Pixels
from tokenstn.system.documents import in_short
from tokenstn.system.files import written_whole

ORIENTATION = 0x0112
SIZE_TAGS = {0xA002: 0, 0xA003: 1}  # ExifImageWidth and ExifImageHeight, and their place in a PIL size
# what a TIFF says about itself that does not depend on its pixels: description, camera, software, date, artist, XMP, …
TIFF_TAGS = (270, 271, 272, 305, 306, 315, 700, 33432)
MORE_TAGS = (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)  # tables of further tags
LOSSY = 90  # quality for formats that do not tell theirs: WebP and AVIF
# modes that are warped as they are; others by way of the mode that holds all they show
PLAIN = ("L", "LA", "RGB", "RGBA", "CMYK", "I;16", "I")
THROUGH = {"1": "L", "PA": "RGBA", "La": "LA", "RGBa": "RGBA"}
DEEP = ("I;16", "I;16B", "I;16L", "I;16N")  # Pillow's own way from one to the other cuts values off at 255
ALPHA = ("LA", "RGBA")
EIGHT_BITS = ("L", "LA", "RGB", "RGBA", "CMYK")
BITS_PER_SAMPLE = 258  # a tag of TIFF
PPM_HEADER = 1024  # bytes that hold it, with comments
J2K_SIZES = b"\xff\x4f\xff\x51"  # markers at the start of the codestream, before the sizes of image and tiles


class UnwritablePhotoError(UnreadableImageError):
    """A photo that was read, but whose format, or what its file says about it, cannot be written again."""


@dataclass(frozen=True)
class PhotoFile:
    """A decoded file.

    pixels: ``(H, W, C)``, as the EXIF tag says it is to be seen. mode: of these pixels, in Pillow's words; saved_mode:
    of the file. stored_size: height and width before the EXIF tag was followed. orientation: of the tag, 1 where there
    is none. options: what a writer has to be told so that the result is like this file. why_not: a reason for not
    writing it again; empty where there is none.
    """

    pixels: Pixels
    mode: str
    saved_mode: str
    format: str
    stored_size: tuple[int, int]
    orientation: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    why_not: str = ""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of what is seen."""
        return self.pixels.shape[0], self.pixels.shape[1]

    def save(self, pixels: Pixels, path: Path) -> None:
        """Write other pixels ``(h, w, C)`` in the way of this file, as a whole or not at all."""
        with written_whole(path) as beside:
            try:
                with quiet:
                    self._write(pixels, beside)
            except Exception as error:  # what a broken file says about itself breaks writers in any way
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # the disk's fault
                raise UnwritablePhotoError(str(path), in_short(error)) from error

    def _write(self, pixels: Pixels, path: Path) -> None:
        image = Image.fromarray(
            pixels[..., 0] if pixels.shape[2] == 1 else pixels, None if self.mode != "CMYK" else "CMYK"
        )
        if self.saved_mode == "1":
            image = image.point([0] * 128 + [255] * 128, mode="1")
        options = dict(self.options)
        exif = options.get("exif")
        if isinstance(exif, Image.Exif):
            options["exif"] = _resized(exif, image.size)
        inner = options.get("tiffinfo", {}).get(ExifTags.IFD.Exif)
        if inner is not None:
            new = {tag: image.size[place] for tag, place in SIZE_TAGS.items() if tag in inner}
            options["tiffinfo"] = {**options["tiffinfo"], ExifTags.IFD.Exif: {**inner, **new}}
        image.save(path, format=self.format, **options)


def decode_photo(content: bytes, name: str) -> PhotoFile:
    """The photo in the bytes of a file; ``name`` is for the error."""
    with opened(content, name) as image:
        image.load()
        return _photo(image, content)


def plain_photo(pixels: Pixels) -> PhotoFile:
    """Pixels that come from no file, ``(H, W, C)``, to be written as PNG."""
    mode = "L" if pixels.shape[2] == 1 else "RGB"
    return PhotoFile(pixels, mode, mode, "PNG", (pixels.shape[0], pixels.shape[1]))


def _photo(image: Image.Image, content: bytes) -> PhotoFile:
    kind = image.format or "PNG"
    kind = "JPEG" if kind == "MPO" else kind  # what phones call a JPEG with a depth map or a preview behind it
    why_not = _why_not(image, kind, content)
    stored = (image.height, image.width)
    tagged = image.getexif().get(ORIENTATION)
    ImageOps.exif_transpose(image, in_place=True)  # a copy of a large photo would be dear
    options = {} if why_not else _options(image, kind, content, tagged is not None)
    mode, saved_mode = _working_mode(image), image.mode
    pixels = np.array(image.convert(mode) if image.mode not in (mode, *DEEP) else image)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    pixels = pixels.astype(np.uint16) if mode == "I;16" else pixels  # in this machine's order of bytes
    return PhotoFile(pixels, mode, saved_mode, kind, stored, int(tagged or 1), options, why_not)


def _why_not(image: Image.Image, kind: str, content: bytes) -> str:
    frames = getattr(image, "n_frames", 1)
    if frames > 1 and kind != "JPEG":
        return f"it has {frames} frames, and one pose is not for all of them"
    bits = bits_of(image, kind, content)
    if image.mode in EIGHT_BITS and bits > 8:
        return f"it has {bits} bits for each colour, which would be cut down to 8"
    if _working_mode(image) not in PLAIN:
        return f"pixels of the kind {image.mode} are not moved"
    if kind not in Image.SAVE:
        return f"files of the kind {kind} are read but not written"
    return ""


def bits_of(image: Image.Image, kind: str, content: bytes) -> int:
    """How many bits the file has for each colour, which Pillow may have cut down; 8 where it does not say."""
    if kind == "PNG":
        return content[24]
    if kind == "TIFF":
        return max(np.atleast_1d(getattr(image, "tag_v2", {}).get(BITS_PER_SAMPLE, 8)))
    if kind == "PPM":
        largest = re.sub(rb"#[^\n]*", b"", content[:PPM_HEADER]).split()[3:4]  # after P6, width and height
        return int(largest[0]).bit_length() if largest and largest[0].isdigit() else 8
    if kind == "JPEG2000":
        _, found, sizes = content.partition(J2K_SIZES)
        channels = int.from_bytes(sizes[36:38])  # behind its length, capabilities and eight coordinates
        return 1 + max((depth & 0x7F for depth in sizes[38 : 38 + 3 * channels : 3]), default=7) if found else 8
    if kind == "AVIF":
        _, _, settings = content.partition(b"av1C")
        deep, twelve = (bool(settings[2:3] and settings[2] & flag) for flag in (0x40, 0x20))
        return 12 if deep and twelve else 10 if deep else 8
    return 8


def _working_mode(image: Image.Image) -> str:
    if image.mode not in ALPHA and image.has_transparency_data:
        return "LA" if image.mode == "L" else "RGBA"
    if image.mode in DEEP:
        return "I;16"
    return "RGB" if image.mode == "P" else THROUGH.get(image.mode, image.mode)


def _options(image: Image.Image, kind: str, content: bytes, tagged: bool) -> dict[str, Any]:
    """What Pillow has to be told when it writes: compression, and everything that is said about the picture.

    ``tagged``: it had an orientation, which was followed and now is the plain one.
    """
    info = image.info
    options: dict[str, Any] = {name: info[name] for name in ("icc_profile", "dpi") if info.get(name)}
    exif = image.getexif()
    if (len(exif) or tagged) and kind in ("JPEG", "PNG", "WEBP", "AVIF"):
        if tagged:
            exif[ORIENTATION] = 1
        options["exif"] = exif
    if info.get("xmp") and kind in ("JPEG", "WEBP", "AVIF"):
        options["xmp"] = info["xmp"]
    if isinstance(image, JpegImagePlugin.JpegImageFile):
        sampling = JpegImagePlugin.get_sampling(image)
        options |= {"qtables": image.quantization, "progressive": bool(info.get("progressive"))}
        options |= {"subsampling": sampling} if sampling >= 0 else {}
        options |= {"comment": info["comment"]} if info.get("comment") else {}
    elif isinstance(image, PngImagePlugin.PngImageFile):
        options["pnginfo"] = _text_of(image)
    elif kind == "TIFF":
        tags = getattr(image, "tag_v2", {})
        more = {tag: dict(exif.get_ifd(tag)) for tag in MORE_TAGS}
        more[ExifTags.IFD.Exif].pop(ExifTags.IFD.Interop, None)  # a place in the file that was
        more = {tag: said for tag, said in more.items() if said}
        options["tiffinfo"] = {tag: tags[tag] for tag in TIFF_TAGS if tag in tags} | more
        # what is compressed is written by libtiff, which takes no tables of further tags
        options["compression"] = "raw" if more else info.get("compression", "raw")
        options |= {"quality": LOSSY} if options["compression"] == "jpeg" else {}
    elif kind == "WEBP":
        options |= {"lossless": True} if is_lossless_webp(content) else {"quality": LOSSY}
    elif kind == "AVIF":
        options["quality"] = LOSSY
    return options


def is_lossless_webp(content: bytes) -> bool:
    """Whether the pixels are in a chunk for lossless ones; a profile and other chunks may come before it.

    >>> is_lossless_webp(b"RIFF....WEBPVP8X" + bytes((1, 0, 0, 0)) + b"..VP8L")
    True
    """
    place = 12
    while place + 8 <= len(content) and content[place : place + 4] not in (b"VP8 ", b"VP8L"):
        size = int.from_bytes(content[place + 4 : place + 8], "little")
        place += 8 + size + size % 2
    return content[place : place + 4] == b"VP8L"


def _text_of(image: PngImagePlugin.PngImageFile) -> PngImagePlugin.PngInfo:
    kept = PngImagePlugin.PngInfo()
    for name, said in image.text.items():
        now = image.info.get(name, said)  # following the EXIF tag changes what was said about it
        if isinstance(said, PngImagePlugin.iTXt):
            kept.add_itxt(name, str(now), said.lang or "", said.tkey or "")
        else:
            kept.add_text(name, str(now))
    return kept


def _resized(exif: Image.Exif, size: tuple[int, int]) -> bytes:
    """The tags with another size in them; a thumbnail, which would show the photo as it was, is left out."""
    inner = exif.get_ifd(ExifTags.IFD.Exif)
    for tag, place in SIZE_TAGS.items():
        if tag in inner:
            inner[tag] = size[place]
    return exif.tobytes()
