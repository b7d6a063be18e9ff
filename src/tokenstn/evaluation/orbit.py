"""Run a model over the orbits of a set of photos: batches outside, elements inside, one input at a time on the device.

The bare classifier and the rectified one answer on the same pixels. What stays of a batch are a few numbers for each
image and element, on the CPU, so device memory does not grow with the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor
from torch.utils.data import DataLoader

from tokenstn.data import ImageTable, fit_matrix
from tokenstn.evaluation.answers import Answers, FoundPoses, Responses, is_labelled
from tokenstn.evaluation.asking import Record, ask, one_ahead
from tokenstn.evaluation.classification import OrbitDiscrimination
from tokenstn.evaluation.method import Method, Sampling, Views
from tokenstn.evaluation.photos import Mode, Padding, PhotoOrbit, Photos
from tokenstn.geometry import Group, decompose
from tokenstn.models import Preprocessing
from tokenstn.models.finite import why_no_answer
from tokenstn.system.processes import reading_processes


@torch.no_grad()
def answer_orbit(
    model: Method,
    photos: DataLoader[Any],
    group: Group,
    *,
    views: Views = "auto",
    sampling: Sampling = "probable",
    device: torch.device | str | None = None,
    seed: int = 0,
    padding: Padding = "reflection",
    mode: Mode = "bilinear",
    mask: bool = False,
    progress: bool = False,
) -> Answers:
    """What the bare and the rectified classifier say on every photo under every element.

    Args:
        photos: as ``load_photos`` makes it; images that cannot be read are left out and listed.
        views, sampling: as in the model's call.
        device: where the model is moved and run; where it is when None.
        seed: of a group's random first shear, and of random views.
        padding, mode: of the warp that applies the poses.
        mask: show the inscribed disc of each input and nothing else.
        progress: show a bar with the time that is left.
    """
    dataset = photos.dataset
    assert isinstance(dataset, Photos)
    table, preprocessing = dataset.table, dataset.preprocessing
    model.eval()
    device = device_of(model) if device is None else torch.device(device)
    model.to(device)
    tapes = {name: _Tape() for name in ("bare", "rectified", "value", "entropy", "spread", "view", "image")}
    upright: dict[str, list[Tensor]] = {"bare": [], "rectified": []}
    discriminations: dict[str, OrbitDiscrimination] = {}
    bad: list[tuple[str, str]] = []
    noise = torch.Generator().manual_seed(seed) if sampling == "random" else None
    with _bar(len(photos) * len(group), progress) as advance, reading_processes():
        for batch in photos:
            bad += batch["bad"]
            if len(batch["index"]) == 0:
                advance(len(group))
                continue
            labels = batch["label"]
            there, known = labels.to(device), is_labelled(labels).nonzero().flatten().to(device)
            truth = there[known]
            orbit = PhotoOrbit(
                batch, group, preprocessing, device=device, seed=seed, padding=padding, mode=mode, mask=mask
            )  # fmt: skip
            tapes["image"].add([_about_images(batch, orbit, preprocessing)])
            heard: dict[str, list[Record]] = {name: [] for name in tapes if name != "image"}
            asked = (ask(model, orbit[k], there, views, sampling, noise) for k in range(len(group)))
            for k, said in enumerate(one_ahead(asked)):
                for name, record in said.poses.items():
                    heard[name].append(record)
                for name, probabilities in said.probabilities.items():
                    _require_answers(said.is_answer[name], batch["index"], table, said.precision)
                    _require_classes(probabilities.shape[1], labels, table.name, len(table.classes))
                    heard[name].append(said.judged[name])
                    if k == 0:
                        upright[name].append(probabilities.cpu())
                    if len(known):
                        if name not in discriminations:
                            discriminations[name] = OrbitDiscrimination(probabilities.shape[1], model.multi_label)
                        discriminations[name].update(probabilities[known], truth, check=False)
                advance(1)
            for name, records in heard.items():
                tapes[name].add(records)
    if not upright["bare"]:
        first = f"; the first is {bad[0][0]}: {bad[0][1]}" if bad else ""
        raise ValueError(f"none of the {len(dataset)} images of {table.name} could be read{first}")
    about = {name: values[0] for name, values in tapes["image"].joined().items()}
    responses = {
        name: Responses(
            **tapes[name].joined(), upright=torch.cat(upright[name]), discrimination=discriminations.get(name)
        )
        for name in upright
        if upright[name]
    }
    rows = about.pop("rows")
    return Answers(
        group=group,
        rows=rows,
        groups=None if table.groups is None else tuple(str(table.groups[row]) for row in rows.tolist()),
        multi_label=model.multi_label,
        bad=tuple(bad),
        bare=responses["bare"],
        rectified=responses.get("rectified"),
        poses=None if model.bare else _found(tapes),
        **about,
    )


def device_of(model: torch.nn.Module) -> torch.device:
    """Where a model's parameters are; the CPU for one without any."""
    return next(model.parameters(), torch.zeros(())).device


class _Tape:
    """Records of a batch for each element, joined over the batches at the end: ``{name: (E, N, …)}``."""

    def __init__(self) -> None:
        self._batches: list[Record] = []

    def add(self, elements: list[Record]) -> None:
        if elements:
            self._batches.append({name: torch.stack([record[name] for record in elements]) for name in elements[0]})

    def joined(self) -> Record:
        return {name: torch.cat([batch[name] for batch in self._batches], 1) for name in self._batches[0]}


def _about_images(batch: dict[str, Any], orbit: PhotoOrbit, preprocessing: Preprocessing) -> Record:
    matrices = torch.stack(
        [
            fit_matrix((height, width), preprocessing.size, preprocessing.resize, preprocessing.crop_share)
            for height, width in batch["photo_size"].tolist()
        ]
    )
    return {
        "labels": batch["label"],
        "rows": batch["index"],
        "first_shear": decompose(orbit.matrices(0)).shear,  # element 0 is the identity after it
        "zoom": (matrices[:, 0, 0] * matrices[:, 1, 1]).sqrt(),
        "stretch": matrices[:, 1, 1] / matrices[:, 0, 0],
    }


def _found(tapes: dict[str, _Tape]) -> FoundPoses:
    value, entropy, spread, view = (tapes[name].joined() for name in ("value", "entropy", "spread", "view"))
    return FoundPoses(value, entropy, spread, view["views"], view.get("disagreement"))


def _require_answers(kept: Tensor, rows: Tensor, table: ImageTable, precision: str) -> None:
    """What is not a number is neither right nor wrong: an evaluation with such answers is refused."""
    if not bool(kept.all()):
        names = [table.item_name(row) for row in rows[~kept].tolist()]
        others = f" and {len(names) - 1} others" if len(names) > 1 else ""
        raise ValueError(f"{names[0]}{others}: {why_no_answer(precision)}")


def _require_classes(outputs: int, labels: Tensor, name: str, classes: int) -> None:
    """Without a label anywhere any classifier will do; with labels its outputs are the classes of the data."""
    if classes and outputs != classes and bool(is_labelled(labels).any()):
        raise ValueError(
            f"the classifier has {outputs} outputs and {name} has {classes} classes: they must be the same, in "
            "the same order; take the classifier that was trained on these classes, or leave the labels out"
        )


@contextmanager
def _bar(total: int, shown: bool) -> Iterator[Any]:
    columns = (TextColumn("orbit"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not shown) as bar:
        task = bar.add_task("orbit", total=total)
        yield lambda steps: bar.advance(task, steps)
