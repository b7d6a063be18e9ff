"""What cannot be evaluated is refused with a sentence, before anything is run."""

from __future__ import annotations

from dataclasses import replace

import torch

from tokenstn.data import ImageTable
from tokenstn.evaluation.method import Method
from tokenstn.geometry import Group


def check_match(model: Method, table: ImageTable, group: Group, poses: str) -> None:
    """Refuse, with a sentence, what cannot be evaluated."""
    if len(group) == 0:
        raise ValueError(f"the group {group.name!r} is empty: choose an order of at least 1")
    if poses not in ("absolute", "relative"):
        raise ValueError(f"poses={poses!r}: absolute or relative")
    if model.preprocessing is None:
        raise ValueError(
            f"{type(model.classifier).__name__} does not say how its images are prepared: make the model with "
            "preprocessing=Preprocessing(size, mean, std)"
        )
    if not table.classes or not bool((table.labels >= 0).any()):
        return
    if model.multi_label != table.multi_label:
        has = ("one class", "several labels")
        raise ValueError(
            f"the classifier gives {has[model.multi_label]} for an image, {table.name} has {has[table.multi_label]}: "
            "they must be alike"
        )
    if model.classes is not None and model.classes != table.classes:
        raise ValueError(
            f"the classifier knows the classes {some_of(model.classes)}, {table.name} has {some_of(table.classes)}: "
            f"{first_difference(model.classes, table.classes)}; they must be the same, or leave the labels out "
            "(--labels=false) to measure consistency alone"
        )


def in_order_of(classes: tuple[str, ...] | None, table: ImageTable) -> ImageTable:
    """The same images with the labels in the order of a classifier's classes; the table itself where others are known.

    >>> pixels = torch.zeros(3, 1, 8, 8, dtype=torch.uint8)
    >>> table = ImageTable("few", pixels, torch.tensor([0, 1, -1]), ("class2", "class10"), channels=1)
    >>> in_order_of(("class10", "class2"), table).labels.tolist()
    [1, 0, -1]
    """
    if classes is None or classes == table.classes or sorted(classes) != sorted(table.classes):
        return table
    place = {name: number for number, name in enumerate(classes)}
    there = torch.tensor([place[name] for name in table.classes])
    if table.multi_label:
        labels = torch.empty_like(table.labels).index_copy_(1, there, table.labels)
    else:
        labels = torch.where(table.labels >= 0, there[table.labels.clamp_min(0)], table.labels)
    return replace(table, labels=labels, classes=classes)


def without_labels(table: ImageTable) -> ImageTable:
    """The same images, unlabelled."""
    return replace(table, labels=torch.full_like(table.labels, -1))


def unlabelled_for(model: Method, table: ImageTable, outputs: int) -> ImageTable:
    """The same images without labels, for a classifier that may know other classes, and sets of them.

    Answers are judged in the shape of the labels, so these take the shape of the classifier's answers.
    """
    if not model.multi_label:
        return replace(table, labels=torch.full((len(table),), -1), classes=(), multi_label=False)
    names = model.classes if model.classes is not None else tuple(str(number) for number in range(outputs))
    return replace(table, labels=torch.full((len(table), outputs), -1.0), classes=names, multi_label=True)


def first_difference(known: tuple[str, ...], there: tuple[str, ...]) -> str:
    """What tells two lists of classes apart, for people.

    >>> first_difference(("cat", "dog"), ("cat", "cow", "dog"))
    'cow is not among the classes that it knows'
    """
    unknown, missing = [name for name in there if name not in known], [name for name in known if name not in there]
    if unknown:
        return f"{some_of(tuple(unknown))} {'is' if len(unknown) == 1 else 'are'} not among the classes that it knows"
    if missing:
        return f"{some_of(tuple(missing))} {'is' if len(missing) == 1 else 'are'} not among the images"
    return "a name stands there more than once"


def some_of(names: tuple[str, ...]) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
