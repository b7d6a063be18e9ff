"""EU-Moths and Ecuador-Moths: their official folders, and a compact zip of the former."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from tokenstn.data.items import Item, ZipMember
from tokenstn.data.paths import encode, inside
from tokenstn.data.table import ImageTable
from tokenstn.system.documents import MOST_BYTES, parsed_json


def is_moths(folder: Path) -> bool:
    """Whether a folder has the files of the official layout."""
    lists = (folder / "images.txt").is_file() or (folder / "imagelist.txt").is_file()
    return lists and (folder / "labels.txt").is_file() and (folder / "tr_ID.txt").is_file()


def read_moths(source: str | Path, test_fold: int = 0, val_fold: int | None = None) -> ImageTable:
    """A moth data set with its train and test splits.

    Args:
        source: an official folder, where line k of ``labels.txt`` and ``tr_ID.txt`` is about line k of the list of
            images: EU's ``images.txt`` ("number path", in ``images/``), Ecuador's ``imagelist.txt`` (a path); or a zip
            file of images with ``meta.json`` = a list of [file, label, fold].
        test_fold: the images with this number in ``tr_ID.txt`` are the test split, all others train. 0 is the official
            choice: one of EU's four folds, all of Ecuador's test images.
        val_fold: the images with this number are the val split; None = there is none yet.
    """
    source = Path(source)
    if source.is_dir():
        return _read_folder(source, test_fold, val_fold)
    return _read_zip(source, test_fold, val_fold)


def _read_folder(folder: Path, test_fold: int, val_fold: int | None) -> ImageTable:
    if not is_moths(folder):
        raise ValueError(f"{folder} has not images.txt or imagelist.txt, labels.txt and tr_ID.txt: not a moth data set")
    numbered = (folder / "images.txt").is_file()
    listing = folder / ("images.txt" if numbered else "imagelist.txt")
    home = folder / "images" if numbered else folder
    lines = _lines(listing)
    items = [inside(home, line.split(maxsplit=1)[-1] if numbered else line, listing) for line in lines]
    columns = {name: _lines(folder / name) for name in ("labels.txt", "tr_ID.txt")}
    for name, values in columns.items():
        if len(values) != len(items):
            raise ValueError(
                f"{folder / name} has {len(values)} lines, {listing.name} has {len(items)}; they go together"
            )
    names = columns["labels.txt"]
    if (folder / "class_names.txt").is_file():
        species = _lines(folder / "class_names.txt")
        names = [_nth(species, label, folder) for label in names]
    folds = [_whole(value, folder / "tr_ID.txt") for value in columns["tr_ID.txt"]]
    return _table(folder.resolve().name, items, names, folds, test_fold, val_fold)


def _read_zip(archive: Path, test_fold: int, val_fold: int | None) -> ImageTable:
    if not archive.is_file():
        raise ValueError(f"there is no file {archive}")
    try:
        with zipfile.ZipFile(archive) as file:
            there = set(file.namelist())
            if "meta.json" not in there:
                raise ValueError(
                    f"{archive} has no meta.json, the list of [file, label, fold]; unpack other archives first"
                )
            if file.getinfo("meta.json").file_size > MOST_BYTES:
                raise ValueError(f"meta.json in {archive} has more than {MOST_BYTES:,} bytes: it is no such list")
            rows = parsed_json(file.read("meta.json"), f"meta.json in {archive}")
    except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError) as error:
        raise ValueError(f"{archive} is truncated, or no zip file of images ({error})") from error
    right = isinstance(rows, list) and all(
        isinstance(row, list) and len(row) == 3 and isinstance(row[0], str) and isinstance(row[2], int) for row in rows
    )
    if not right:
        raise ValueError(f"meta.json in {archive} is a list of [file, label, fold]; this one is not")
    absent = [name for name, _, _ in rows if name not in there]
    if absent:
        raise ValueError(
            f"{archive} lists {absent[0]!r} and {len(absent) - 1} others in meta.json but does not hold them"
        )
    items = [ZipMember(archive, name) for name, _, _ in rows]
    names, folds = [str(label) for _, label, _ in rows], [fold for _, _, fold in rows]
    return _table(archive.stem, items, names, folds, test_fold, val_fold)


def _table(
    name: str, items: Sequence[Item], names: list[str], folds: list[int], test_fold: int, val_fold: int | None
) -> ImageTable:
    present = sorted(set(folds))
    if test_fold not in present or len(present) < 2:
        raise ValueError(f"{name} has the folds {present}; test_fold is one of several, got {test_fold}")
    if val_fold is not None and (val_fold not in present or val_fold == test_fold or len(present) < 3):
        raise ValueError(
            f"{name} has the folds {present}; val_fold is one of them beside test_fold={test_fold}, with another left "
            f"for training, got {val_fold}"
        )
    labels, classes = encode(names, None, name)
    homes = {test_fold: "test", val_fold: "val"}
    kept: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    for row, fold in enumerate(folds):
        kept[homes.get(fold, "train")].append(row)
    splits: dict[str, Tensor] = {split: torch.tensor(rows) for split, rows in kept.items() if rows}
    return ImageTable(name, items, labels, classes, splits)


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]


def _whole(text: str, path: Path) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{path} has the line {text!r}; expected a whole number in each") from None


def _nth(species: list[str], label: str, folder: Path) -> str:
    number = _whole(label, folder / "labels.txt")
    if not 0 <= number < len(species):
        raise ValueError(
            f"{folder / 'labels.txt'} has the label {number}, class_names.txt names 0 to {len(species) - 1}"
        )
    return species[number]
