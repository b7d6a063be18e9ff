"""Which images are meant: a folder, a glob, a list, a manifest or any data set, as one list that stays the same."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from tokenstn.data import ImageTable, ZipMember, open_images
from tokenstn.data.open import EMBEDDED
from tokenstn.data.path_list import PathList
from tokenstn.data.paths import is_image, walk_files
from tokenstn.data.torch_dataset import Datasets

Source = str | Path | ImageTable | Datasets
LOOKED_FOR = 20  # files at the head of a list, of which one at least has to be there


@dataclass(frozen=True, eq=False)
class ImageList:
    """Images without labels, in an order that only their names decide.

    table: its items are paths in a compact list where the images are files. root: the folder that their names are
    relative to; None where they are no files. digest: of every name, box and, for images in memory, pixel. others: how
    many files of a folder are left out, because their names are not those of images.
    """

    table: ImageTable
    root: Path | None
    digest: str
    others: int = 0

    def __len__(self) -> int:
        return len(self.table)

    def relative_name(self, row: int) -> Path:
        """A file name for a row, relative to ``root``; a number and ``.png`` for an image that is no file."""
        item = self.table.items[row]
        if isinstance(item, Path):
            assert self.root is not None
            return Path(os.path.relpath(item, self.root))
        return Path(item.name) if isinstance(item, ZipMember) else Path(f"{row:06d}.png")


def text_of(name: str) -> str:
    """The name of a file for those who keep text alone: bytes in it that are none become escapes."""
    return name.encode("utf-8", errors="backslashreplace").decode()


def list_images(source: Source) -> ImageList:
    """The images that a person means.

    Args:
        source: a folder, searched to any depth, whatever its folders are called; a glob such as ``photos/*/*.jpg``; a
            ``.txt`` file with a path in each line, relative to that file; a manifest (``.csv``, ``.parquet``), whose
            boxes are cut out; or whatever else ``open_images`` takes.
    """
    if isinstance(source, ImageTable):
        return _from_table(source)
    if not isinstance(source, str | Path) or str(source) in EMBEDDED:
        return _from_table(open_images(source))
    path = Path(source)
    if path.is_dir():
        return _from_folder(path, str(source))
    if path.suffix.lower() == ".txt" and path.is_file():
        return _from_listing(path)
    if glob.has_magic(str(source)) and not path.exists():
        names = sorted(name for name in glob.iglob(str(source), recursive=True) if is_image(Path(name)))
        if not names:
            raise ValueError(f"no image matches {str(source)!r}; quote it, so that the shell does not expand it")
        return _from_names(names, _fixed_part(str(source)), str(source))
    table = open_images(source)
    return _from_table(table, path.parent if path.is_file() else None)


def _from_folder(folder: Path, called: str) -> ImageList:
    names, others = [], 0
    for name in walk_files(folder):
        if is_image(Path(name)):
            names.append(name)
        else:
            others += 1
    if not names:
        return _from_table(_other_folder(folder))
    return replace(_from_names(sorted(names), folder, called), others=others)


def _other_folder(folder: Path) -> ImageTable:
    try:
        return open_images(folder)
    except ValueError:
        raise ValueError(
            f"{folder} holds no image, at any depth (looked for jpg, png, tif, webp and the like)"
        ) from None


def _from_listing(listing: Path) -> ImageList:
    text = os.fsdecode(listing.read_bytes()).removeprefix("\ufeff")
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    if not lines:
        raise ValueError(f"{listing} lists no image: write the path of one in each line")
    names = [os.path.join(listing.parent, line) for line in lines]  # an absolute path stays as it is
    if not any(os.path.exists(name) for name in names[:LOOKED_FOR]):
        raise ValueError(
            f"{listing}: there is no file {names[0]}, nor are the next there; write absolute paths, or paths relative "
            f"to {listing.parent}"
        )
    elsewhere = any(os.path.isabs(line) or ".." in Path(line).parts for line in lines)
    root = Path(os.path.commonpath([os.path.dirname(os.path.abspath(name)) for name in names]))
    return _from_names(names, root if elsewhere else listing.parent, str(listing))


def _from_names(names: Iterable[str], root: Path, called: str) -> ImageList:
    items = PathList(names)
    return _from_table(ImageTable(called, items, torch.full((len(items),), -1)), root)


def _from_table(table: ImageTable, root: Path | None = None) -> ImageList:
    """A table without labels, splits and groups, which nothing here looks at."""
    items = table.items
    if not isinstance(items, Tensor | PathList) and all(isinstance(item, Path) for item in items):
        items = PathList(item for item in items if isinstance(item, Path))
        root = root if root is not None else Path(os.path.commonpath([path.parent for path in items]))
    bare = replace(
        table, items=items, labels=torch.full((len(items),), -1), classes=(), splits={}, groups=None, multi_label=False
    )
    return ImageList(bare, root, _digest(bare))


def _digest(table: ImageTable) -> str:
    found = hashlib.sha256(f"{len(table)}\n".encode())
    if isinstance(table.items, Tensor):
        found.update(table.items.contiguous().numpy().data)
    else:
        for item in table.items:
            found.update(os.fsencode(str(item)) + b"\n")
    if table.boxes is not None:
        found.update(table.boxes.contiguous().numpy().data)
    return found.hexdigest()


def _fixed_part(pattern: str) -> Path:
    """The folders of a glob before the first wildcard."""
    fixed = []
    for part in Path(pattern).parts[:-1]:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return Path(*fixed) if fixed else Path()
