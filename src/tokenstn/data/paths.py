"""Files and names: which are images, in which order they come, and which stay inside their folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

import torch
from torch import Tensor

IMAGE_SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".avif", ".jp2",
    ".ppm", ".pgm", ".pbm", ".pnm",
)  # fmt: skip


def natural_key(name: str) -> tuple:
    """A key that sorts numbers inside names by their value.

    >>> sorted(["img10", "img9", "Img1"], key=natural_key)
    ['Img1', 'img9', 'img10']
    """
    parts = re.split(r"(\d+)", name)
    return (*((int(part), "") if part.isdecimal() else (-1, part.casefold()) for part in parts), (-1, name))


def is_image(path: Path) -> bool:
    """Whether the name is that of an image; hidden files are none."""
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")


def visible_folders(folder: Path) -> list[Path]:
    """The subfolders, in natural order, without hidden ones and those that archivers leave behind."""
    found = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith((".", "__")))
    return sorted(found, key=lambda path: natural_key(path.name))


def images_in(folder: Path) -> list[Path]:
    """The image files directly in a folder, in natural order."""
    return sorted((path for path in folder.iterdir() if is_image(path)), key=lambda path: natural_key(path.name))


def images_below(folder: Path) -> list[Path]:
    """The image files in a folder and its subfolders, in natural order; links are followed, loops are not."""
    found = [Path(name) for name in walk_images(folder)]
    return sorted(found, key=lambda path: natural_key(path.relative_to(folder).as_posix()))


def walk_images(folder: Path) -> Iterator[str]:
    """The same files as they come, as text: for folders with more of them than one wants to hold as objects."""
    return (name for name in walk_files(folder) if is_image(Path(name)))


def walk_files(folder: Path) -> Iterator[str]:
    """All files in a folder and its subfolders that are not hidden, as they come, as text."""
    seen = set()
    for where, folders, names in os.walk(folder, followlinks=True, onerror=_refuse):
        real = os.path.realpath(where)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        yield from (os.path.join(where, name) for name in names if not name.startswith("."))


def _refuse(error: OSError) -> None:
    """What cannot be looked into is not passed over: nobody would notice that its images are missing."""
    raise ValueError(
        f"the folder {error.filename} cannot be listed ({error.strerror}): allow it, or move it away"
    ) from error


def inside(folder: Path, relative: str, listed_in: Path) -> Path:
    """A listed path, which must stay inside its folder."""
    posix, windows = PurePosixPath(relative), PureWindowsPath(relative)
    if posix.is_absolute() or windows.drive or windows.root or ".." in posix.parts or ".." in windows.parts:
        raise ValueError(
            f"{listed_in} lists {relative!r}, which leaves its folder; paths are relative to {folder} and have no '..'"
        )
    return folder / relative


def encode(names: Iterable[str], classes: Sequence[str] | None, source: str) -> tuple[Tensor, tuple[str, ...]]:
    """Class names as labels ``(N,)`` int64, "" as −1; and the classes, all that occur in natural order if None.

    >>> encode(["b", "", "a"], None, "a list")
    (tensor([ 1, -1,  0]), ('a', 'b'))
    """
    names = list(names)
    known = tuple(sorted({name for name in names if name}, key=natural_key)) if classes is None else tuple(classes)
    place = {name: index for index, name in enumerate(known)} | {"": -1}
    unknown = sorted({name for name in names if name not in place}, key=natural_key)
    if unknown:
        shown = ", ".join(map(repr, unknown[:5]))
        raise ValueError(f"{source} has the label {shown}, which is none of the {len(known)} classes {_shown(known)}")
    return torch.tensor([place[name] for name in names], dtype=torch.int64), known


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
