"""Photos turned upright, at their own resolution, by one warp of their own pixels."""

from __future__ import annotations

import math
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from tokenstn.data import PIXEL_LIMIT
from tokenstn.data.images import read_file
from tokenstn.data.items import ZipMember
from tokenstn.geometry import decompose, seen_rotation
from tokenstn.inference.canvas import Canvas, moves, on_canvas
from tokenstn.inference.photo_file import ALPHA, PhotoFile, UnwritablePhotoError, decode_photo, plain_photo
from tokenstn.inference.sources import ImageList, text_of
from tokenstn.inference.tiles import Outside, pixel_matrix, warp_tiled
from tokenstn.system.files import written_whole

Padding = Literal["reflection", "border", "black", "white"]
AMBIGUOUS, UPRIGHT = "several poses fit", "it is upright already"
LARGE = 25_000_000  # pixels, above which photos are corrected one at a time
THINNEST = 10_000  # times as long as wide, above which a photo is a line, and turning it shows nothing

_one_large_photo = threading.Lock()


@dataclass(frozen=True)
class Correction:
    """What was done to one photo, as a row of ``corrections.csv``.

    row: its place in the list of images. path: of the photo. file: of the result, in images/. why_not: where it was
    left as it is. rotation_deg, scale, shear, translation_x_px, translation_y_px, mirrored, stretch: the pose that was
    found in the photo. orientation: its EXIF tag, which was followed first. width, height: of the photo as it is seen;
    output_…: of the result. m00 … m12: the affine map from a pixel of the result to the place in the photo where it
    was read, (0, 0) the corner of the first pixel; the identity where nothing was done.
    """

    row: int
    path: str
    file: str
    corrected: bool
    why_not: str
    rotation_deg: float
    scale: float
    shear: float
    translation_x_px: float
    translation_y_px: float
    mirrored: bool
    pose_ambiguous: bool | None
    stretch: float  # not beside the scale: the columns before keep their numbers for those who cut them out
    orientation: int
    width: int
    height: int
    output_width: int
    output_height: int
    m00: float
    m01: float
    m02: float
    m10: float
    m11: float
    m12: float

    @property
    def reads(self) -> Tensor:
        """m00 … m12 as a matrix, ``(3, 3)`` float64."""
        last = [0.0, 0.0, 1.0]
        rows = [[self.m00, self.m01, self.m02], [self.m10, self.m11, self.m12], last]
        return torch.tensor(rows, dtype=torch.float64)


@dataclass(frozen=True)
class Rectifier:
    """How photos are corrected, and where they go: ``folder`` holds the results under their own names.

    why_ambiguous: what is said of photos that ``only_confident`` leaves as they are.
    """

    images: ImageList
    folder: Path
    padding: Padding = "reflection"
    canvas: Canvas = "same"
    only_confident: bool = False
    why_ambiguous: str = AMBIGUOUS

    def __call__(self, row: int, pose: Tensor, ambiguous: bool | None) -> Correction:
        """Correct the photo of a row by its pose, in the photo's frame, ``(3, 3)``, or leave it as it is.

        Raises:
            UnreadableImageError: the photo, or what is to be cut out of it, is not there any more.
        """
        content = self._content(row)
        photo = self._photo(row, content)
        with _one_large_photo if photo.pixels.size > 3 * LARGE else nullcontext():
            return self._correct(row, pose, ambiguous, photo, content)

    def name(self, row: int) -> Path:
        """What the result of a row is called."""
        name, box = self.images.relative_name(row), self.images.table.box(row)
        if name.is_absolute() or ".." in name.parts:
            raise ValueError(f"{name} leaves the folder of the images: list images that are inside of it")
        return name if box is None else name.with_stem(f"{name.stem}_{'-'.join(map(str, box))}")

    def _correct(
        self, row: int, pose: Tensor, ambiguous: bool | None, photo: PhotoFile, content: bytes | None
    ) -> Correction:
        matrix, size = on_canvas(pose, photo.size, self.canvas)
        why_not = photo.why_not
        if not why_not and self.only_confident and ambiguous:
            why_not = self.why_ambiguous
        if not why_not and not moves(matrix, photo.size, size):
            why_not = UPRIGHT
        why_not = why_not or _out_of_shape(photo.size, size)
        target = self.folder / self.name(row)
        if not why_not:
            alpha = photo.mode in ALPHA
            turned = warp_tiled(photo.pixels, matrix, size, _outside(photo, self.padding), alpha=alpha)
            try:
                photo.save(turned, target)
            except UnwritablePhotoError as error:
                why_not = f"it cannot be written again with all that its file says ({error.reason})"
        if why_not:
            matrix, size = torch.eye(3, dtype=torch.float64), photo.size
            self._leave(row, photo, content, target)
        return self._described(row, photo, pose, ambiguous, why_not, pixel_matrix(matrix, photo.size, size), size)

    def _leave(self, row: int, photo: PhotoFile, content: bytes | None, target: Path) -> None:
        """The same bytes where there are some; a part of a photo is written anew."""
        if content is None or self.images.table.box(row) is not None:
            photo.save(photo.pixels, target)
            return
        with written_whole(target) as beside:
            beside.write_bytes(content)

    def _content(self, row: int) -> bytes | None:
        item = self.images.table.items[row]
        if isinstance(item, Path):
            return read_file(item)
        return item.content() if isinstance(item, ZipMember) else None

    def _photo(self, row: int, content: bytes | None) -> PhotoFile:
        table = self.images.table
        if content is None:
            return plain_photo(table.read(row).movedim(0, -1).numpy())
        photo = decode_photo(content, table.item_name(row))
        box = self.images.table.box(row)
        if box is None:
            return photo
        left, top, right, bottom = box
        return PhotoFile(**{**photo.__dict__, "pixels": photo.pixels[top:bottom, left:right]})

    def _described(
        self,
        row: int,
        photo: PhotoFile,
        pose: Tensor,
        ambiguous: bool | None,
        why_not: str,
        reads: Tensor,
        size: tuple[int, int],
    ) -> Correction:
        found = decompose(pose)
        half = min(photo.size) / 2
        return Correction(
            row=row,
            path=text_of(self.images.table.item_name(row)),
            file=text_of(self.name(row).as_posix()),
            corrected=not why_not,
            why_not=why_not,
            rotation_deg=math.degrees(seen_rotation(found).item()),
            scale=found.scale.item(),
            shear=found.shear.item(),
            translation_x_px=half * found.translation[0].item(),
            translation_y_px=half * found.translation[1].item(),
            mirrored=bool(found.reflection < 0),
            pose_ambiguous=ambiguous,
            stretch=found.stretch.item(),
            orientation=photo.orientation,
            width=photo.size[1],
            height=photo.size[0],
            output_width=size[1],
            output_height=size[0],
            **dict(zip(("m00", "m01", "m02", "m10", "m11", "m12"), reads[:2].flatten().tolist(), strict=True)),
        )


def _out_of_shape(size: tuple[int, int], output_size: tuple[int, int]) -> str:
    """Why a photo of this height and width is not turned; empty where it is."""
    if max(size) > THINNEST * min(size):
        return f"it is more than {THINNEST:,} times as long as it is wide"
    if output_size[0] * output_size[1] > PIXEL_LIMIT:
        return f"turned, with room for all of it, it would have more than {PIXEL_LIMIT:,} pixels"
    return ""


def _outside(photo: PhotoFile, padding: Padding) -> Outside:
    if padding in ("reflection", "border"):
        return padding
    white = 65535.0 if photo.mode.startswith("I") else 255.0
    if photo.mode == "CMYK":  # ink, not light
        return (0.0, 0.0, 0.0, 0.0 if padding == "white" else 255.0)
    colours = photo.pixels.shape[2] - (photo.mode in ALPHA)
    opaque = (255.0,) if photo.mode in ALPHA else ()
    return (white if padding == "white" else 0.0,) * colours + opaque
