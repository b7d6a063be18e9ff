"""Any torch Dataset of (image, label) as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
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
    1, taken from ``targets`` where the data set has it and no ``target_transform``, else every element is read once.

    Names come from ``classes``, of each part its own: "dog" may be 1 in train and 0 in test. Labels that a
    ``target_transform`` changed, or of a part without ``classes``, are places in the first list of names that there is.
    """
    parts: Mapping[Any, Dataset] = source if isinstance(source, Mapping) else {None: source}
    if not parts:
        raise ValueError("an empty dict of data sets: give one for each of train, val, test")
    items: list[DatasetMember] = []
    labels: list[Tensor] = []
    named: list[tuple[str, ...]] = []
    splits: dict[str, Tensor] = {}
    for split, dataset in parts.items():
        size = _size(dataset)
        if split is not None:
            splits[split] = torch.arange(len(items), len(items) + size)
        items += [DatasetMember(dataset, index) for index in range(size)]
        labels.append(_labels(dataset, size))
        named.append(_names(dataset, labels[-1]))
    name = name or type(next(iter(parts.values()))).__name__
    if len({tuple(part.shape[1:]) for part in labels}) > 1:
        raise ValueError(f"{name}: the splits have labels of different shapes; give all of them the same kind")
    coded, known = _by_one_list(name, labels, named)
    together = torch.cat(list(coded))
    multi_label = together.ndim == 2
    count = together.shape[1] if multi_label else int(together.max()) + 1
    classes = (known or tuple(map(str, range(count)))) if count else ()
    return ImageTable(name, items, together, classes, splits, multi_label=multi_label, channels=channels)


def _size(dataset: Any) -> int:
    map_style = isinstance(dataset, Dataset) and not isinstance(dataset, IterableDataset)
    if not map_style or not isinstance(dataset, Sized):
        raise ValueError(f"{type(dataset).__name__} is not a map-style torch Dataset, with an index and a length")
    if len(dataset) == 0:
        raise ValueError(f"{type(dataset).__name__} holds no image")
    return len(dataset)


def _by_one_list(
    name: str, labels: Sequence[Tensor], named: Sequence[tuple[str, ...]]
) -> tuple[Sequence[Tensor], tuple[str, ...]]:
    """The labels of each part ``(n,)`` or ``(n, L)`` by one list of names, from the names of each; and that list."""
    lists = list(dict.fromkeys(names for names in named if names))
    if len(lists) < 2:
        return labels, lists[0] if lists else ()
    if labels[0].ndim == 2:
        raise ValueError(f"{name}: the splits name their labels differently; give all of them the same classes")
    place: dict[str, int] = {}
    for names in lists:
        if len(set(names)) < len(names):
            raise ValueError(f"{name} names a class twice; class names are distinct")
        for one in names:
            place.setdefault(one, len(place))
    found = []
    for codes, names in zip(labels, named, strict=True):
        if names and int(codes.max()) >= len(names):
            raise ValueError(f"{name}: a part has the label {int(codes.max())}, and {len(names)} classes")
        places = torch.tensor([place[one] for one in names])
        found.append(torch.where(codes >= 0, places[codes.clamp_min(0)], codes) if names else codes)
    return found, tuple(place)


def _names(dataset: Any, labels: Tensor) -> tuple[str, ...]:
    """What the labels of a data set are called; nothing where that is not known."""
    names = tuple(map(str, getattr(dataset, "classes", None) or ()))
    if not names or not _transforms_labels(dataset):
        return names
    # the names are those of ``targets``, and of what a transform made of these only where it left them as they were
    targets = getattr(dataset, "targets", None)
    return names if targets is not None and torch.equal(_coded(dataset, list(targets)), labels) else ()


def _transforms_labels(dataset: Any) -> bool:
    return getattr(dataset, "target_transform", None) is not None


def _labels(dataset: Any, size: int) -> Tensor:
    targets = None if _transforms_labels(dataset) else getattr(dataset, "targets", None)
    if targets is not None and len(targets) == size:
        return _coded(dataset, list(targets))
    return _coded(dataset, [_label(dataset[index]) for index in range(size)])


def _coded(dataset: Any, found: list[Any]) -> Tensor:
    """Labels of whatever kind as whole numbers ``(n,)`` or 0 and 1 ``(n, L)``."""
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
