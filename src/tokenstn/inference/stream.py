"""A model's answers to many images, batch by batch: read by other processes, sent as bytes, never held together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, Sampler

from tokenstn.data import ImageDataset, collate, to_float
from tokenstn.data.dataset import seen_sizes
from tokenstn.inference.shards import Rejected, ShardFolder
from tokenstn.inference.sources import ImageList
from tokenstn.models import Prediction, Preprocessing, TokenSTN
from tokenstn.models.call_settings import precision_of
from tokenstn.models.finite import is_answer, why_no_answer
from tokenstn.models.preprocessing import preprocessing_of
from tokenstn.system.processes import reads_for_another

Views = int | Literal["auto"]


@dataclass(frozen=True)
class Answered:
    """A batch of a shard.

    rows: those of its images that could be read, B of them. sizes: height and width of their photos, or of what was cut
    out of them, B pairs. prediction: None where B is 0. rejected: the others. last: of the shard.
    """

    shard: int
    rows: list[int]
    sizes: list[tuple[int, int]]
    prediction: Prediction | None
    rejected: list[Rejected]
    last: bool


def answers(
    model: TokenSTN,
    images: ImageList,
    job: ShardFolder,
    shards: Sequence[int],
    fabric: Fabric,
    *,
    views: Views = "auto",
    batch_size: int = 64,
    workers: int = 0,
) -> Iterator[Answered]:
    """What a model says about the images of these shards, in their order.

    The model is where ``fabric`` runs. A batch never reaches over the end of a shard. Whoever takes the answers does so
    inside ``reading_processes``.
    """
    preprocessing = preprocessing_of(model)
    model.record()  # nearly all batches have one shape
    batches = [
        (shard, rows[start : start + batch_size], start + batch_size >= len(rows))
        for shard in shards
        for rows in (job.rows(shard),)
        for start in range(0, len(rows), batch_size)
    ]
    loader = DataLoader(
        ImageDataset(images.table, **preprocessing.fitting, on_bad="skip"),
        batch_sampler=_Batches([rows for _, rows, _ in batches]),
        num_workers=min(workers, len(batches)),
        collate_fn=collate,
        pin_memory=fabric.device.type == "cuda",
        worker_init_fn=reads_for_another,
    )
    for (shard, _, last), batch in zip(batches, loader, strict=True):
        rows = batch["index"].tolist()
        prediction = _answer(model, batch["image"], preprocessing, fabric, views) if rows else None
        answer = Answered(shard, rows, seen_sizes(images.table, batch), prediction, batch["bad"], last)
        kept = torch.ones(0, dtype=torch.bool) if prediction is None else is_answer(prediction.probabilities)
        if not bool(kept.all()):
            prediction = _answer(model, batch["image"][kept], preprocessing, fabric, views) if kept.any() else None
            answer = _without(answer, kept, prediction, images, why_no_answer(_precision(fabric)))
        yield answer


def _without(
    answer: Answered, kept: torch.Tensor, prediction: Prediction | None, images: ImageList, reason: str
) -> Answered:
    """The batch less the images that the model has no answer to; ``prediction`` is that for the others."""
    good = [place for place, keep in enumerate(kept.tolist()) if keep]
    refused = [(images.table.item_name(row), reason) for place, row in enumerate(answer.rows) if place not in good]
    return replace(
        answer,
        rows=[answer.rows[place] for place in good],
        sizes=[answer.sizes[place] for place in good],
        prediction=prediction,
        rejected=[*answer.rejected, *refused],
    )


def _precision(fabric: Fabric) -> str:
    with fabric.autocast():
        return precision_of(torch.zeros(0, device=fabric.device))


class _Batches(Sampler[list[int]]):
    """Rows that are read together, given as ranges, so that a million take no room."""

    def __init__(self, batches: Sequence[range]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return map(list, self._batches)

    def __len__(self) -> int:
        return len(self._batches)


@torch.inference_mode()
def _answer(
    model: TokenSTN, pixels: torch.Tensor, preprocessing: Preprocessing, fabric: Fabric, views: Views
) -> Prediction:
    moved = pixels.to(fabric.device, non_blocking=True)
    with fabric.autocast():
        return model(to_float(moved, preprocessing.mean, preprocessing.std), views=views)
