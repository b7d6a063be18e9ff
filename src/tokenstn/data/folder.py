"""A folder of images: class folders, class folders inside split folders, or just images without labels."""

from __future__ import annotations

from pathlib import Path

import torch

from tokenstn.data.paths import encode, images_below, images_in, visible_folders
from tokenstn.data.table import SPLITS, ImageTable, listed

SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


def read_folder(folder: str | Path, labelled: bool = True) -> ImageTable:
    """A folder as a table, in natural order; files that are no images are left alone.

    Three layouts: ``class/…`` (torchvision's), ``train|val|valid|test/class/…``, or flat, which is unlabelled (a split
    folder may be flat, too). Class folders are searched to any depth.

    Args:
        labelled: False takes every image at any depth, without a label, whatever the folders are called.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}" if not folder.exists() else f"{folder} is not a folder")
    name = folder.resolve().name
    if not labelled:
        return _unlabelled(name, folder, images_below(folder))
    folders = visible_folders(folder)
    if not folders:
        return _unlabelled(name, folder, images_in(folder))
    called = {sub.name.lower() for sub in folders}
    if "train" not in called and not called <= set(SPLIT_NAMES):
        items, names = _classes(folder, folders)
        labels, classes = encode(names, None, str(folder))
        return ImageTable(name, items, labels, classes)
    return _split_folders(name, folder, folders)


def _split_folders(name: str, folder: Path, folders: list[Path]) -> ImageTable:
    items: list[Path] = []
    names: list[str] = []
    rows: dict[str, list[int]] = {}
    homes: dict[str, Path] = {}
    for sub in folders:
        split = SPLIT_NAMES.get(sub.name.lower())
        if split in homes:
            raise ValueError(f"{homes[split]} and {sub} are both the {split} split; keep one of them")
        if split is not None:
            homes[split] = sub
        elif images_below(sub):
            raise ValueError(
                f"{folder} has split folders and also {sub.name!r}, which holds images; "
                f"beside train there may be {', '.join(SPLIT_NAMES)}"
            )
    for split in (name for name in SPLITS if name in homes):
        inner, loose = visible_folders(homes[split]), images_in(homes[split])
        found, labels = _classes(homes[split], inner) if inner else (loose, [""] * len(loose))
        if not found:
            raise ValueError(f"the split folder {homes[split]} holds no image; add images to it, or remove it")
        rows[split] = list(range(len(items), len(items) + len(found)))
        items += found
        names += labels
    codes, classes = encode(names, None, str(folder))
    if "train" in rows:
        unseen = sorted({n for n in names if n} - {names[row] for row in rows["train"]})
        if unseen and any(names[row] for row in rows["train"]):
            raise ValueError(
                f"{folder}: {listed(unseen, 'class')} not in {homes['train'].name}, which nothing can learn from"
            )
    return ImageTable(name, items, codes, classes, {split: torch.tensor(index) for split, index in rows.items()})


def _classes(folder: Path, folders: list[Path]) -> tuple[list[Path], list[str]]:
    loose = images_in(folder)
    if loose:
        raise ValueError(
            f"{folder} has class folders and also {len(loose)} images outside of them ({loose[0].name}, …); "
            "move them into a class, or read the folder as unlabelled"
        )
    found = {sub.name: images_below(sub) for sub in folders}
    empty = [name for name, images in found.items() if not images]
    if len(empty) == len(found):
        raise ValueError(f"{folder} holds no image in any of its folders")
    if empty:
        raise ValueError(f"{folder}: no image of {listed(empty, 'class')}; add images, or remove the folder")
    return [path for images in found.values() for path in images], [n for n, images in found.items() for _ in images]


def _unlabelled(name: str, folder: Path, images: list[Path]) -> ImageTable:
    if not images:
        raise ValueError(f"{folder} holds no image (looked for jpg, png, tif, webp and the like)")
    return ImageTable(name, images, torch.full((len(images),), -1))
