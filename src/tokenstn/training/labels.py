"""Batches in which some images have no label: which have one, and how many of those are answered right."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tokenstn.evaluation.answers import is_labelled

Batch = dict[str, Any]  # as ``data.collate`` makes it


def share_right(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Share of the labelled images whose most probable class is their label; for several labels, of those right at ½.

    NaN where no image is labelled.
    """
    known = is_labelled(labels)
    probabilities, labels = probabilities[known], labels[known]
    if labels.ndim == 2:
        return ((probabilities > 0.5) == (labels > 0.5)).float().mean()
    return (probabilities.argmax(-1) == labels).float().mean()


def labelled_places(batch: Batch) -> Tensor:
    """Where the images with a label are in a batch, ``(n,)`` on the CPU, so that no GPU is waited for."""
    return batch["known"] if "known" in batch else is_labelled(batch["label"]).nonzero().flatten().cpu()


def labelled(batch: Batch, *values: Tensor) -> tuple[Tensor, ...]:
    """Of values ``(B, …)``, each where it lies, the rows of images with a label."""
    places = labelled_places(batch)
    if len(places) == len(batch["label"]):
        return values
    return tuple(each[places.to(each.device, non_blocking=True)] for each in values)
