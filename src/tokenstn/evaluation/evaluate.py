"""Everything about a model on a data set under a group of poses: run it, judge it, check that, say what it cost."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

import tokenstn
from tokenstn.data import ImageTable
from tokenstn.evaluation.answers import Answers
from tokenstn.evaluation.controls import run_controls
from tokenstn.evaluation.cost import device_name, measure_cost
from tokenstn.evaluation.gallery import pick_examples, render_examples
from tokenstn.evaluation.matching import check_match, in_order_of, without_labels
from tokenstn.evaluation.method import Method, Sampling, Views
from tokenstn.evaluation.metrics_json import plain
from tokenstn.evaluation.orbit import answer_orbit, device_of
from tokenstn.evaluation.photos import load_photos
from tokenstn.evaluation.pose import pose_failed, pose_scores
from tokenstn.evaluation.remedy import SAME_ANSWER, is_low
from tokenstn.evaluation.results import SCHEMA, Control, Element, Evaluation, Example, Provenance
from tokenstn.evaluation.sampling import data_checksum, stratified_limit
from tokenstn.evaluation.scores import entropies_of, flips_of, scores_of, uncertainty_scores_of
from tokenstn.evaluation.thresholds import flag_scores
from tokenstn.evaluation.uncertainty import DRAWS
from tokenstn.geometry import Group
from tokenstn.models.call_settings import precision_of

CONTROL_IMAGES = 500
LARGEST_LOSS = 0.01  # of upright accuracy, before it is worth a warning
FEW_TO_DIFFER = 10  # images: so few may well be alike
VERSIONS = ("torch", "torchvision", "timm", "numpy")


class Examination(NamedTuple):
    """An evaluation, its gallery, and the answers that both were made from."""

    evaluation: Evaluation
    examples: list[Example]
    answers: Answers


def evaluate(
    model: Method,
    table: ImageTable,
    split: str | None = "test",
    *,
    group: Group,
    views: Views = "auto",
    sampling: Sampling = "probable",
    mask: bool = False,
    poses: Literal["absolute", "relative"] = "absolute",
    labels: bool = True,
    limit: int | None = None,
    batch_size: int = 64,
    workers: int = 0,
    device: torch.device | str | None = None,
    controls: bool = True,
    cost: bool = True,
    examples: int = 6,
    draws: int = DRAWS,
    seed: int = 0,
    progress: bool = False,
    model_name: str = "",
    command: str = "",
    settings: Mapping[str, Any] | None = None,
) -> Examination:
    """Run a model over the orbits of a split, and measure all that there is to measure.

    Args:
        split: train, val or test; None = every row of the table.
        views, sampling: as in the model's call.
        mask: show the inscribed disc of each input and nothing else; the controls look at whole images.
        poses: "relative" where the images do not come upright, so that only changes of the pose are known.
        labels: False leaves the labels out: consistency and confidence are measured then.
        limit: at most so many images, classes in their proportions.
        device: where the model is moved and run; where it is when None.
        controls: exact quarter turns, turns without seams, a circular mask, another padding and interpolation, over at
            most 500 images.
        cost: count FLOPs and time the model; parameters are always counted.
        examples: of each kind in the gallery.
        draws: of the bootstrap behind the intervals of the uncertainties.
        seed: of the limit, the group's first shear, random views and the bootstrap.
        model_name, command, settings: for the provenance; settings go on top of those that are known here.
    """
    start = time.monotonic()
    given = table if labels else without_labels(table)
    table = in_order_of(model.classes, given)
    check_match(model, table, group, poses)
    assert model.preprocessing is not None
    if device is not None:
        model.to(device)
    rows = stratified_limit(given, split, limit, seed)  # the same ones for every classifier
    photos = load_photos(table, rows, model.preprocessing, batch_size, workers)
    answers = answer_orbit(
        model, photos, group, views=views, sampling=sampling, seed=seed, mask=mask, progress=progress
    )
    classes = class_names(model, table, answers)
    failed = pose_failed(answers, model.primitives)
    auto_views = answers.poses.views.double().mean().item() if answers.poses is not None and views == "auto" else None
    limits, no_flags = model.thresholds, why_no_flags(model, views, sampling)
    evaluation = Evaluation(
        schema=SCHEMA,
        model=model_name or type(model.classifier).__name__,
        data=table.name,
        split=split or "all",
        images=len(answers.rows),
        classes=classes,
        multi_label=model.multi_label,
        group=group.name,
        elements=elements_of(group),
        views=str(views),
        poses=poses,
        bare=scores_of(answers, answers.bare, len(classes), seed),
        rectified=None if answers.rectified is None else scores_of(answers, answers.rectified, len(classes), seed),
        flips=flips_of(answers, len(classes)),
        pose=pose_scores(answers, model.primitives, poses),
        entropy=entropies_of(answers, len(classes), seed),
        uncertainty=uncertainty_scores_of(answers, failed, seed, draws),
        controls=(
            _controls(model, given, split, limit, batch_size, workers, views, sampling, seed) if controls else ()
        ),
        cost=measure_cost(model, batch_size=batch_size, views=views, auto_views=auto_views, measured=cost),
        provenance=Provenance(
            command=command,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=0.0,
            device=device_name(device_of(model)),
            versions=versions(),
            seed=seed,
            data_sha256=data_checksum(given, rows),
            settings=plain(
                {
                    "limit": limit,
                    "batch_size": batch_size,
                    "first_shear": group.first_shear,
                    "padding": "reflection",
                    "interpolation": "bilinear",
                    "sampling": sampling,
                    "mask": mask,
                    "preprocessing": asdict(model.preprocessing),
                    **(settings or {}),
                }
            ),
        ),
        flags=None if limits is None or no_flags else flag_scores(answers, limits, model.primitives, seed),
    )
    shown = pick_examples(answers, examples)
    gallery = render_examples(
        model, table, answers, shown, classes, views=views, sampling=sampling, seed=seed, mask=mask
    )
    seconds = round(time.monotonic() - start, 1)
    evaluation = replace(
        evaluation,
        warnings=(*warnings_of(evaluation, answers), *((no_flags,) if no_flags else ())),
        provenance=replace(evaluation.provenance, seconds=seconds),
    )
    return Examination(evaluation, gallery, answers)


def class_names(model: Method, table: ImageTable, answers: Answers) -> tuple[str, ...]:
    """What the outputs are called: by the data, by the model, or by their numbers."""
    outputs = answers.bare.upright.shape[1]
    for names in (table.classes, model.classes or ()):
        if len(names) == outputs:
            return tuple(names)
    return tuple(str(number) for number in range(outputs))


def elements_of(group: Group) -> tuple[Element, ...]:
    """The elements of a group for people: degrees, factors.

    >>> from tokenstn.geometry import rotation_group
    >>> elements_of(rotation_group(4))[1].rotation_deg
    90.0
    """
    poses = group.poses

    def rounded(values: Tensor) -> list[Any]:
        return values.double().round(decimals=6).tolist()

    degrees, shifts = rounded(poses.rotation.double().rad2deg()), rounded(poses.translation)
    columns = zip(degrees, rounded(poses.scale), poses.reflection.long().tolist(), shifts, strict=True)
    return tuple(Element(angle, scale, side, (shift[0], shift[1])) for angle, scale, side, shift in columns)


def warnings_of(evaluation: Evaluation, answers: Answers) -> tuple[str, ...]:
    """What a person should know before believing the figures."""
    found = []
    if answers.bad:
        name, reason = answers.bad[0]
        found.append(f"{len(answers.bad)} images could not be read and are left out; the first is {name}: {reason}")
    said = answers.bare.predicted
    doubtful = evaluation.bare.upright is None or is_low(evaluation)  # all images may be of one class
    if doubtful and said.shape[1] >= FEW_TO_DIFFER and bool((said == said[0, 0]).all()):
        found.append(SAME_ANSWER)
    found += [score.sentence for score in evaluation.pose.values() if score.collapsed]
    found += [control.sentence for control in evaluation.controls if control.warns]
    if evaluation.flips is not None and evaluation.flips.overall.broken > evaluation.flips.overall.fixed:
        counts = evaluation.flips.overall
        found.append(f"the rectifier breaks more answers ({counts.broken:,}) than it fixes ({counts.fixed:,})")
    bare, rectified = evaluation.bare.upright, None if evaluation.rectified is None else evaluation.rectified.upright
    if bare is not None and rectified is not None and bare - rectified > LARGEST_LOSS:
        found.append(f"on images {evaluation.as_they_come}, rectifying costs {100 * (bare - rectified):.1f} points")
    if evaluation.pose and bool((answers.stretch.log().abs() > 0.02).any()):
        found.append(
            "photos that are not square are squashed, and a turned photo is then more than turned for the network: "
            "read pose and equivariance errors with care, or prepare the images with crop or pad"
        )
    if evaluation.flags is not None:
        flags = (evaluation.flags.class_uncertain, evaluation.flags.pose_ambiguous)
        found += [flag.sentence for flag in flags if flag is not None and flag.kept is False]
    return tuple(found)


def why_no_flags(model: Method, views: Views, sampling: Sampling = "probable") -> str | None:
    """Why the model's thresholds do not hold for an evaluation; None where they do, or where there are none."""
    if model.thresholds is None:
        return None
    precision = precision_of(torch.zeros(1, device=device_of(model)))  # of the images here, unless autocast is on
    return model.thresholds.why_not(model.call_settings(views, sampling, precision))


def versions() -> dict[str, str]:
    """Of this package, of Python and of what the figures depend on."""
    return {
        "tokenstn": tokenstn.__version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in VERSIONS},
    }


def _controls(
    model: Method, table: ImageTable, split: str | None, limit: int | None, batch_size: int, workers: int,
    views: Views, sampling: Sampling, seed: int,
) -> tuple[Control, ...]:  # fmt: skip
    assert model.preprocessing is not None
    few = CONTROL_IMAGES if limit is None else min(limit, CONTROL_IMAGES)
    rows = stratified_limit(table, split, few, seed)  # some of those that were evaluated
    photos = load_photos(in_order_of(model.classes, table), rows, model.preprocessing, batch_size, workers)
    return run_controls(model, photos, views=views, sampling=sampling)
