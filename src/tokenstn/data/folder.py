"""A folder of images: class folders, class folders inside split folders, or just images without labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from tokenstn.data.paths import encode, images_below, images_in, visible_folders, walk_images
from tokenstn.data.table import SPLITS, ImageTable, listed

SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


def read_folder(folder: str | Path, labelled: bool = True, classes: Sequence[str] | None = None) -> ImageTable:
    """A folder as a table, in natural order; files that are no images are left alone.

    Three layouts: ``class/…``, ``train|val|valid|test/class/…``, or flat, which is unlabelled (a split folder may be
    flat, too). Class folders are searched to any depth.

    Args:
        labelled: False takes every image at any depth, without a label, whatever the folders are called.
        classes: their names in order, as a trained classifier has them; None: all folders in natural order, class2
            before class10. torchvision's ``ImageFolder`` has them in the order of their characters, ``sorted(names)``.
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
    if _are_splits(folder, folders):
        return _split_folders(name, folder, folders, classes)
    items, names = _classes(folder, folders)
    labels, known = encode(names, classes, str(folder))
    return ImageTable(name, items, labels, known)


def _are_splits(folder: Path, folders: list[Path]) -> bool:
    """Whether the folders with images in them are train, val and test; otherwise they are classes.

    One class may be called train. Where it holds folders itself, or beside it there is a second split, the others are
    as likely in the wrong place, and nobody but a person knows.
    """
    filled = [sub for sub in folders if next(walk_images(sub), None) is not None]
    splits = [sub for sub in filled if sub.name.lower() in SPLIT_NAMES]
    others = [sub for sub in filled if sub not in splits]
    if not others:
        return bool(splits)
    if len(splits) > 1 or any(visible_folders(sub) for sub in splits):
        raise ValueError(
            f"{folder} can be read in two ways: as splits, then move {listed([sub.name for sub in others], 'folder')} "
            f"away (only {', '.join(SPLIT_NAMES)} hold images there); or as classes, then rename "
            f"{listed([sub.name for sub in splits], 'folder')}. A manifest (.csv) names label and split of each image"
        )
    return False


def _split_folders(name: str, folder: Path, folders: list[Path], classes: Sequence[str] | None) -> ImageTable:
    _refuse_loose(folder, "split")
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
    for split in (name for name in SPLITS if name in homes):
        inner, loose = visible_folders(homes[split]), images_in(homes[split])
        found, labels = _classes(homes[split], inner) if inner else (loose, [""] * len(loose))
        if not found:
            raise ValueError(f"the split folder {homes[split]} holds no image; add images to it, or remove it")
        rows[split] = list(range(len(items), len(items) + len(found)))
        items += found
        names += labels
    codes, known = encode(names, classes, str(folder))
    if "train" in rows:
        unseen = sorted({n for n in names if n} - {names[row] for row in rows["train"]})
        if unseen and any(names[row] for row in rows["train"]):
            raise ValueError(
                f"{folder}: {listed(unseen, 'class')} not in {homes['train'].name}, which nothing can learn from"
            )
    return ImageTable(name, items, codes, known, {split: torch.tensor(index) for split, index in rows.items()})


def _classes(folder: Path, folders: list[Path]) -> tuple[list[Path], list[str]]:
    _refuse_loose(folder, "class")
    found = {sub.name: images_below(sub) for sub in folders}
    empty = [name for name, images in found.items() if not images]
    if len(empty) == len(found):
        raise ValueError(f"{folder} holds no image in any of its folders")
    if empty:
        raise ValueError(f"{folder}: no image of {listed(empty, 'class')}; add images, or remove the folder")
    return [path for images in found.values() for path in images], [n for n, images in found.items() for _ in images]


def _refuse_loose(folder: Path, kind: str) -> None:
    """Images beside folders of a kind, which would be left out."""
    loose = images_in(folder)
    if loose:
        raise ValueError(
            f"{folder} has {kind} folders and also {len(loose)} images outside of them ({loose[0].name}, …); "
            f"move them into a {kind}, or read the folder as unlabelled"
        )


def _unlabelled(name: str, folder: Path, images: list[Path]) -> ImageTable:
    if not images:
        raise ValueError(f"{folder} holds no image (looked for jpg, png, tif, webp and the like)")
    return ImageTable(name, images, torch.full((len(images),), -1))
