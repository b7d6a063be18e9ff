"""The images of an experiment in its two phases: choosing, which never sees a test image, and the final cells."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch

from tokenstn.benchmark.experiment import DataSpec
from tokenstn.data import ImageTable, UnreadableImageError, open_images, split_table
from tokenstn.evaluation.matching import first_difference, in_order_of, some_of
from tokenstn.evaluation.sampling import data_checksum, stratified_limit

Phase = Literal["choosing", "final"]
LARGEST_HELD = 4 * 2**30  # bytes of pixels that are kept in memory
SPLIT_SEED = 0  # splits that the data lack are the same for all seeds of an experiment
ALWAYS_LOOKED = (".", ".assets", "data")


@dataclass(frozen=True)
class Place:
    """Where the images of a task are on this machine, and which of them: what a process needs to open them."""

    source: str
    phase: Phase
    options: str = "{}"  # JSON, so that a place can be a key
    final: str = "train"
    judged: str = "test"
    limit: tuple[tuple[str, int], ...] = ()
    classes: tuple[str, ...] | None = None  # in the order of a classifier that knows them already


@dataclass(frozen=True)
class Images:
    """What is known of a data set in a phase: checksums and numbers of images by split, the classes.

    upright: whether they come upright, as the experiment says, or else the data, or else yes. groups: a checksum of
    which judged images belong together, empty where the data know of no groups.
    """

    place: Place
    checksums: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    classes: int = 0
    multi_label: bool = False
    upright: bool = True
    groups: str = ""

    @property
    def identity(self) -> dict[str, Any]:
        """What training depends on: the images themselves, wherever they lie and whatever they are called."""
        return {split: self.checksums[split] for split in ("train", "val") if split in self.checksums}

    @property
    def judged(self) -> str:
        """The split that methods are judged on."""
        return "val" if self.place.phase == "choosing" else "test"


def find_file(name: str, folders: Sequence[str] = ()) -> str:
    """A file or folder in the folders that are looked into; the name itself where it is in none of them."""
    for folder in (*folders, *ALWAYS_LOOKED):
        if (Path(folder) / name).exists():
            return str(Path(folder) / name)
    return name


def describe(
    spec: DataSpec, phase: Phase, folders: Sequence[str] = (), classes: tuple[str, ...] | None = None
) -> Images:
    """Open a data set, and say what is in it; a ValueError with a sentence where it is not at hand, or where it has
    other classes than a classifier knows.
    """
    options = dict(spec.options)
    if "root" not in options and not Path(find_file(spec.source, folders)).exists():
        held = find_file(f"{spec.source}.npz", folders)  # MedMNIST by name, kept with the other files
        source = held if Path(held).exists() else spec.source
    else:
        source = find_file(spec.source, folders)
    limit = tuple(sorted(spec.limit.items()))
    place = Place(source, phase, json.dumps(options), spec.final, spec.judged, limit, classes)
    table = _as_it_is(place)
    if not table.classes:
        raise ValueError(f"{spec.source} has no labels, and a benchmark needs them")
    if classes is not None and table.classes != classes:
        raise ValueError(
            f"the classifier knows the classes {some_of(classes)}, {table.name} has {some_of(table.classes)}: "
            f"{first_difference(classes, table.classes)}; they must be the same"
        )
    found = Images(
        place,
        {split: data_checksum(table, rows) for split, rows in table.splits.items()},
        {split: len(rows) for split, rows in table.splits.items()},
        len(table.classes),
        table.multi_label,
        next((known for known in (spec.upright, table.upright) if known is not None), True),
    )
    return replace(found, groups=_groups(table, table.split(found.judged)))


def _groups(table: ImageTable, rows: torch.Tensor) -> str:
    if table.groups is None:
        return ""
    numbers: dict[str, int] = {}  # not the names, which may be paths
    found = [numbers.setdefault(table.groups[int(row)], len(numbers)) for row in rows]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


@lru_cache(maxsize=2)
def open_place(place: Place) -> ImageTable:
    """The table of a phase, its pixels in memory where they are of one size: decoding them every time takes long."""
    return held(_as_it_is(place))


def _as_it_is(place: Place) -> ImageTable:
    table = split_table(open_images(place.source, **json.loads(place.options)), seed=SPLIT_SEED)
    if place.limit:
        limit = dict(place.limit)
        rows = [stratified_limit(table, split, limit.get(split), SPLIT_SEED) for split in table.splits]
        table = table.subset(torch.cat(rows))
    table = in_order_of(place.classes, table)  # after the choice, which is the same for every classifier
    if place.phase == "choosing" or place.judged == "val":  # no test image can be read, by whatever mistake
        table = table.subset(torch.cat([table.split("train"), table.split("val")]))
        final = {"train": table.split("train"), "test": table.split("val")}
        return table if place.phase == "choosing" else replace(table, splits=final)
    if place.final == "train+val":
        together = torch.cat([table.split("train"), table.split("val")]).sort().values
        return replace(table, splits={"train": together, "test": table.split("test")})
    return table


def held(table: ImageTable, largest: int = LARGEST_HELD) -> ImageTable:
    """The same images in memory if all have one size and there is room, else the table as it is."""
    if isinstance(table.items, torch.Tensor) or table.boxes is not None:
        return table
    pixels: torch.Tensor | None = None
    try:
        for row in range(len(table)):
            photo = table.read(row)
            if pixels is None:
                if len(table) * photo.numel() > largest:
                    return table
                pixels = torch.empty(len(table), *photo.shape, dtype=torch.uint8)
            if photo.shape != pixels.shape[1:]:
                return table
            pixels[row] = photo
    except UnreadableImageError:
        return table  # whoever reads it next says which one
    return table if pixels is None else replace(table, items=pixels)
