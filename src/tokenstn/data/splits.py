"""Train, val and test: kept where they are given, drawn where they are missing; classes spread, groups kept whole."""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from tokenstn.data.table import SPLITS, ImageTable, listed

SHARES: Mapping[str, float] = {"train": 0.8, "val": 0.1, "test": 0.1}


def split_table(table: ImageTable, shares: Mapping[str, float] = SHARES, seed: int = 0) -> ImageTable:
    """The table with every split that ``shares`` names; the same seed gives the same splits.

    A table without splits is divided by the shares. Splits that exist keep their images, and one that is missing is
    carved out of train, as large as its share is of train's and the missing ones' together. Classes are spread evenly
    (by a group's most frequent class), and each keeps at least one image or group in train. A group is never divided.

    >>> from tokenstn.data import read_digits
    >>> {name: len(rows) for name, rows in split_table(read_digits()).splits.items()}
    {'train': 1437, 'val': 180, 'test': 180}
    """
    _check_shares(shares)
    missing = [name for name in shares if name not in table.splits]
    if not missing:
        _warn_divided(table)
        return table
    if not table.splits:
        pool = list(range(len(table)))
    elif "train" in table.splits:
        pool = table.splits["train"].tolist()
        missing.insert(0, "train")
    else:
        raise ValueError(
            f"{table.name} has the splits {', '.join(table.splits)} but no train split to carve {', '.join(missing)} "
            "out of; add one, or do without"
        )
    total = sum(shares[name] for name in missing)
    drawn = _draw(table, pool, {name: shares[name] / total for name in missing}, seed)
    merged = {**table.splits, **drawn}
    made = replace(table, splits={name: merged[name] for name in SPLITS if name in merged})
    _warn_divided(made)
    return made


def split_digest(table: ImageTable) -> str:
    """What ``split_table`` goes by, as a checksum: which images, their labels and groups, and the splits they come in.

    Files count by their names below the folder that they are all in, so that it may be moved or renamed; images in
    memory by their pixels.
    """
    found = hashlib.sha256()
    if isinstance(table.items, Tensor):
        found.update(table.items.contiguous().numpy().data)
        names: list[str] = [""] * len(table)
    else:
        names = [item.as_posix() if isinstance(item, Path) else str(item) for item in table.items]
        root = os.path.commonpath([os.path.dirname(name) for name in names])
        names = [name[len(root) :] for name in names]
    splits = {name: rows.tolist() for name, rows in sorted(table.splits.items())}
    rows = zip(names, table.labels.tolist(), table.groups or names, strict=True)
    for part in (*rows, splits):
        found.update(f"{part!r}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def _draw(table: ImageTable, pool: list[int], shares: dict[str, float], seed: int) -> dict[str, torch.Tensor]:
    """Units (a group, or one image) go, class by class and the largest first, to the split that lacks most images.

    A unit with a class that train has not seen goes to train. What a class leaves too much or too little is carried
    over to the next, so that many small classes still add up to the shares. Classes with few units come first; those
    with many even out the rest.
    """
    label = _one_label(table)
    strata = _strata(table, pool, label, seed)
    units = [unit for stratum in strata for unit in stratum]
    homes = Counter(key for unit in units for key in _classes(unit, label))
    _warn_single(table, [key for key, count in sorted(homes.items()) if key >= 0 and count == 1])
    assigned: dict[str, list[list[int]]] = {name: [] for name in shares}
    lack = dict.fromkeys(shares, 0.0)
    trained: Counter[int] = Counter()  # in how many units of train a class is
    for stratum in strata:
        lack = {name: lack[name] + share * sum(map(len, stratum)) for name, share in shares.items()}
        for unit in stratum:
            unseen = any(key not in trained for key in _classes(unit, label))
            split = "train" if unseen else max(lack, key=lambda name: lack[name])
            lack[split] -= len(unit)
            assigned[split].append(unit)
            if split == "train":
                trained.update(_classes(unit, label))
    for name in shares:
        if not assigned[name]:
            spare = [u for u in assigned["train"] if all(trained[key] > 1 for key in _classes(u, label))]
            if not spare:
                raise ValueError(
                    f"{table.name} is too small for the splits {', '.join(shares)}: {len(pool)} images in {len(units)} "
                    f"groups leave {name} empty; add images, or ask for fewer splits"
                )
            given = min(spare, key=len)
            assigned["train"].remove(given)
            assigned[name].append(given)
            trained.subtract(_classes(given, label))
    return {name: torch.tensor(sorted(row for unit in units for row in unit)) for name, units in assigned.items()}


def _strata(table: ImageTable, pool: list[int], label: list[int], seed: int) -> list[list[list[int]]]:
    """The units by their most frequent class, small classes first; in each the largest first, ties by the seed."""
    units: dict[str | int, list[int]] = {}
    for row in pool:
        units.setdefault(row if table.groups is None else table.groups[row], []).append(row)
    strata: dict[int, list[list[int]]] = {}
    for unit in units.values():
        counts = Counter(label[row] for row in unit)
        strata.setdefault(max(counts, key=lambda key: (counts[key], -key)), []).append(unit)
    generator = torch.Generator().manual_seed(seed)
    for key in sorted(strata):
        order = torch.randperm(len(strata[key]), generator=generator).tolist()
        strata[key] = sorted((strata[key][place] for place in order), key=len, reverse=True)
    return [strata[key] for key in sorted(strata, key=lambda key: (len(strata[key]), key))]


def _classes(unit: list[int], label: list[int]) -> set[int]:
    return {label[row] for row in unit}


def _one_label(table: ImageTable) -> list[int]:
    """One label for each image; of several, the rarest, because it is the hardest to spread."""
    if not table.multi_label:
        return table.labels.tolist()
    positive = table.labels > 0
    rarity = torch.where(positive, table.class_counts(), len(table) + 1)
    return torch.where(positive.any(1), rarity.argmin(1), -1).tolist()


def _warn_single(table: ImageTable, keys: list[int]) -> None:
    if keys and not table.multi_label:
        unit = "image" if table.groups is None else "group"
        warnings.warn(
            f"{table.name}: {listed([table.classes[key] for key in keys], 'class')} with one {unit} only, kept in "
            "train, so that nothing is measured there; add images, or leave the class out",
            stacklevel=4,
        )


def _warn_divided(table: ImageTable) -> None:
    groups = table.groups
    if groups is None:
        return
    homes: dict[str, set[str]] = {}  # group → the splits it is in
    for name, rows in table.splits.items():
        for row in map(int, rows):
            homes.setdefault(groups[row], set()).add(name)
    divided = [group for group, names in homes.items() if len(names) > 1]
    if divided:
        warnings.warn(
            f"{table.name}: the given splits divide {listed(divided, 'group')}, so test results will look too good; "
            "keep each group in one split",
            stacklevel=3,
        )


def _check_shares(shares: Mapping[str, float]) -> None:
    valid = "train" in shares and set(shares) <= set(SPLITS) and all(share > 0 for share in shares.values())
    if not valid or not math.isclose(sum(shares.values()), 1.0, abs_tol=1e-6):
        raise ValueError(
            f"shares {dict(shares)}: name train and any of val, test, each with a share above 0, adding up to 1"
        )
