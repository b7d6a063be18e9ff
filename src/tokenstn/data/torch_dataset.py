"""Any torch Dataset of (image, label) as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from tokenstn.data.items import DatasetMember
from tokenstn.data.table import ImageTable

Datasets = Dataset | Mapping[str, Dataset]


def read_dataset(source: Datasets, channels: int = 3, name: str | None = None) -> ImageTable:
    """A torch Dataset, or one for each split: ``{"train": …, "val": …, "test": …}``.

    Elements are (image, label) or just an image: a PIL image, or a tensor ``(C, H, W)``, uint8 or floating point in
    [0, 1]. Give it without random transforms and without normalisation. Labels are whole numbers, or vectors of 0 and
    1, taken from ``targets`` where the data set has it, else every element is read once. Names come from ``classes``.
    """
    parts: Mapping[Any, Dataset] = source if isinstance(source, Mapping) else {None: source}
    if not parts:
        raise ValueError("an empty dict of data sets: give one for each of train, val, test")
    items: list[DatasetMember] = []
    labels: list[Tensor] = []
    splits: dict[str, Tensor] = {}
    for split, dataset in parts.items():
        size = _size(dataset)
        if split is not None:
            splits[split] = torch.arange(len(items), len(items) + size)
        items += [DatasetMember(dataset, index) for index in range(size)]
        labels.append(_labels(dataset, size))
    first = next(iter(parts.values()))
    name = name or type(first).__name__
    if len({tuple(part.shape[1:]) for part in labels}) > 1:
        raise ValueError(f"{name}: the splits have labels of different shapes; give all of them the same kind")
    together = torch.cat(labels)
    multi_label = together.ndim == 2
    count = together.shape[1] if multi_label else int(together.max()) + 1
    known = tuple(map(str, getattr(first, "classes", None) or range(count)))
    classes = known if count else ()
    return ImageTable(name, items, together, classes, splits, multi_label=multi_label, channels=channels)


def _size(dataset: Any) -> int:
    map_style = isinstance(dataset, Dataset) and not isinstance(dataset, IterableDataset)
    if not map_style or not isinstance(dataset, Sized):
        raise ValueError(f"{type(dataset).__name__} is not a map-style torch Dataset, with an index and a length")
    if len(dataset) == 0:
        raise ValueError(f"{type(dataset).__name__} holds no image")
    return len(dataset)


def _labels(dataset: Any, size: int) -> Tensor:
    targets = getattr(dataset, "targets", None)
    found = list(targets) if targets is not None and len(targets) == size else [_label(dataset[i]) for i in range(size)]
    try:
        labels = torch.stack([torch.as_tensor(label) for label in found])
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{type(dataset).__name__}: labels are whole numbers, or vectors of 0 and 1 of one length ({error})"
        ) from error
    if labels.ndim == 2 and labels.shape[1] > 1:
        return labels.float()
    labels = labels.flatten(1).squeeze(1) if labels.ndim > 1 else labels
    if labels.ndim != 1 or bool((labels != labels.round()).any()):
        raise ValueError(f"{type(dataset).__name__}: labels are whole numbers, or vectors of 0 and 1")
    return labels.long()


def _label(sample: Any) -> Any:
    if isinstance(sample, dict):
        raise ValueError("the data set gives dicts; give one of tuples (image, label)")
    return sample[1] if isinstance(sample, tuple | list) and len(sample) > 1 else -1
