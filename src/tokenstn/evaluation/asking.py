"""What a model says about a batch under one element after the other, while the device works on the next one already."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.evaluation.answers import judge
from tokenstn.evaluation.method import Method, Sampling, Views
from tokenstn.models import Prediction
from tokenstn.models.call_settings import precision_of

Record = dict[str, Tensor]  # (B, …) for each quantity


@dataclass(frozen=True)
class Said:
    """What is kept of a batch under one element, on the CPU, or on its way there until ``arrived``.

    probabilities: of the bare and the rectified classifier, ``(B, classes)`` each, still on the device: with many
    classes a CPU takes longer to look at them than a GPU takes to find them. is_answer: which of them are numbers,
    ``(B,)``. judged: what ``judge`` says of them. poses: values, entropies, spreads and views, by name. precision: what
    the model computed in.
    """

    probabilities: dict[str, Tensor]
    is_answer: Record
    judged: dict[str, Record]
    poses: dict[str, Record]
    precision: str
    arrived: torch.cuda.Event | None


def ask(
    model: Method, images: Tensor, labels: Tensor, views: Views, sampling: Sampling, noise: torch.Generator | None
) -> Said:
    """Ask the bare and the rectified classifier about images ``(B, C, h, w)`` and judge their answers by ``labels``.

    All of it happens on the device of the images and the labels, and nothing waits for it.
    """
    said = {"bare": model.classify(images, {})}
    poses: dict[str, Record] = {}
    if not model.bare:
        said["rectified"] = model(images, views=views, sampling=sampling, generator=noise)
        poses = _about_poses(said["rectified"], [primitive.name for primitive in model.primitives])
    probabilities = {name: prediction.probabilities.float() for name, prediction in said.items()}
    sent = Said(
        probabilities,
        _on_the_way({name: answers.isfinite().all(-1) for name, answers in probabilities.items()}),
        {name: _on_the_way(judge(answers, labels, model.multi_label)) for name, answers in probabilities.items()},
        {what: _on_the_way(record) for what, record in poses.items()},
        precision_of(images),
        torch.cuda.Event() if images.is_cuda else None,
    )
    if sent.arrived is not None:
        sent.arrived.record()
    return sent


def one_ahead(asked: Iterator[Said]) -> Iterator[Said]:
    """Each answer once it has arrived; the next one is asked for before."""
    before: Said | None = None
    for said in itertools.chain(asked, (None,)):
        if before is not None:
            if before.arrived is not None:
                before.arrived.synchronize()
            yield before
        before = said


def _on_the_way(record: Record) -> Record:
    """The same on the CPU, once it has arrived."""
    return {name: values.to("cpu", non_blocking=True) for name, values in record.items()}


def _about_poses(prediction: Prediction, estimated: Sequence[str]) -> dict[str, Record]:
    """Best values of the primitives that are estimated, entropies and spreads where the method has them, and views."""
    assert prediction.views is not None
    pose, view = prediction.pose, {"views": (prediction.views.weights > 0).sum(1)}
    if prediction.disagreement is not None:
        view["disagreement"] = prediction.disagreement
    return {
        "value": {} if pose is None else {name: getattr(pose, name) for name in estimated},
        "entropy": dict(prediction.entropy or {}),
        "spread": dict(prediction.spread or {}),
        "view": view,
    }
