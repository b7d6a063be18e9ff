"""Is my classifier robust? A verdict in words, the curves behind it, and what to do next. Labels are optional."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tokenstn.evaluation.answers import Answers
from tokenstn.evaluation.intervals import paired_difference
from tokenstn.evaluation.remedy import LOW_ALREADY, SAME_ANSWER, is_low, train_command
from tokenstn.evaluation.results import Evaluation, Interval
from tokenstn.geometry import Group

NOTABLE_DROP = 0.02
NOTABLE_DISAGREEMENT = 0.05
WIDE = 0.05  # an interval of ± this share says little
FEW_IMAGES = 5  # of a class: too few to name it
TOO_GOOD = 0.995  # an accuracy on images as they come that few classifiers have on images that they have never seen
FEW_TO_BE_RIGHT = 100  # images: all of so few may be right by chance


@dataclass(frozen=True)
class CurvePoint:
    """The bare classifier on images at one angle (degrees, clockwise) or scale; accuracy is None without labels."""

    at: float
    accuracy: float | None
    consistency: float
    confidence: float


@dataclass(frozen=True)
class Loss:
    """What one kind of movement costs.

    drop: of the accuracy, from images as they come to moved ones, clustered by image; None without labels. worst_at:
    degrees, scale, or the number of the element. consistency: share of moved copies with the class of the image as it
    comes.
    """

    moved: str
    drop: Interval | None
    worst_at: float
    consistency: float
    confidence_upright: float
    confidence_moved: float

    @property
    def notable(self) -> bool:
        """Whether it is more than chance and more than a trifle."""
        if self.drop is None:
            return self.consistency < 1 - NOTABLE_DISAGREEMENT
        return self.drop.low > 0 and self.drop.value > NOTABLE_DROP


@dataclass(frozen=True)
class Diagnosis:
    """verdict: one or two sentences. losses: by kind of movement, "turned" and "scaled", or "moved" for other groups.

    by_angle, by_scale: at scale 1, and unturned. next_steps: sentences; the last one goes with ``command``, where
    there is something to be done about it.
    """

    verdict: str
    losses: dict[str, Loss]
    by_angle: tuple[CurvePoint, ...]
    by_scale: tuple[CurvePoint, ...]
    next_steps: tuple[str, ...]
    command: str | None = None


@dataclass(frozen=True)
class Remedy:
    """What helps against a loss: a sentence, and the command that does it."""

    sentence: str
    command: str


def needed_for_diagnosis(group: Group) -> Group:
    """The elements that a diagnosis reads: turned or scaled ones, not both at once; all where nothing is turned.

    >>> from tokenstn.geometry import rotoscale_group
    >>> len(rotoscale_group(16, scales=3)), len(needed_for_diagnosis(rotoscale_group(16, scales=3)))
    (48, 18)
    """
    poses = group.poses
    kept = (poses.rotation == 0) | (poses.scale == poses.scale[0])
    return replace(group, poses=poses[kept])


def diagnose_answers(
    evaluation: Evaluation,
    answers: Answers,
    *,
    remedy: Remedy | None = None,
    in_python: bool = False,
    limited: bool = True,
) -> Diagnosis:
    """What the bare classifier loses when its images are moved; ``answers`` are those the evaluation was made from.

    ``remedy``: what to do about a loss; to train a rectifier for it when None. ``in_python``: the classifier is an
    object, which no command can name. ``limited``: there are more images than were looked at.
    """
    angles = torch.tensor([element.rotation_deg for element in evaluation.elements]) % 360
    scales = torch.tensor([element.scale for element in evaluation.elements])
    kinds = {"turned": (angles != 0) & (scales == scales[0]), "scaled": (angles == 0) & (scales != scales[0])}
    at = {"turned": angles, "scaled": scales}
    if not any(bool(which.any()) for which in kinds.values()):
        kinds, at = {"moved": torch.arange(len(angles)) > 0}, {"moved": torch.arange(len(angles)).double()}
    losses = {name: _loss(name, which, at[name], evaluation, answers) for name, which in kinds.items() if which.any()}
    steps = _next_steps(losses, evaluation, answers, limited)
    wanted = _remedy(losses, evaluation, remedy, in_python)
    return Diagnosis(
        verdict=_verdict(losses, evaluation),
        losses=losses,
        by_angle=_curve(angles, scales == scales[0], evaluation),
        by_scale=_curve(scales, angles == 0, evaluation),
        next_steps=steps if wanted is None else (*steps, wanted.sentence),
        command=None if wanted is None else wanted.command,
    )


def _loss(name: str, which: Tensor, at: Tensor, evaluation: Evaluation, answers: Answers) -> Loss:
    scores, known = evaluation.bare, answers.labelled
    agreement, confidence = torch.tensor(scores.consistency_by_element), torch.tensor(scores.confidence_by_element)
    drop, worst = None, agreement
    if scores.by_element is not None:
        right = answers.bare.right[:, known]
        moved = right[which]
        drop = paired_difference(right[:1].expand_as(moved), moved, answers.clusters[known])
        worst = torch.tensor(scores.by_element)
    place = int(torch.where(which, worst, torch.inf).argmin())
    return Loss(
        moved=name,
        drop=drop,
        worst_at=at[place].item(),
        consistency=agreement[which].mean().item(),
        confidence_upright=confidence[0].item(),
        confidence_moved=confidence[which].mean().item(),
    )


def _curve(at: Tensor, which: Tensor, evaluation: Evaluation) -> tuple[CurvePoint, ...]:
    scores = evaluation.bare
    places = [place for place in at.argsort(stable=True).tolist() if which[place]]
    return tuple(
        CurvePoint(
            at=at[place].item(),
            accuracy=None if scores.by_element is None else scores.by_element[place],
            consistency=scores.consistency_by_element[place],
            confidence=scores.confidence_by_element[place],
        )
        for place in places
    )


def _verdict(losses: dict[str, Loss], evaluation: Evaluation) -> str:
    if not losses:
        return "nothing was moved, so nothing can be said about robustness: use a group of order 2 or more"
    sentences = [_sentence(loss) for loss in losses.values()]
    upright = evaluation.bare.upright
    lead = "" if upright is None else f"{upright:.1%} right on images {evaluation.as_they_come}; "
    return lead + ". It ".join(sentences)


def _sentence(loss: Loss) -> str:
    where = {"turned": f"{loss.worst_at:.4g}°", "scaled": f"{loss.worst_at:.2f}×"}.get(
        loss.moved, f"element {loss.worst_at:.0f}"
    )
    agrees = f"agrees with itself on {loss.consistency:.0%} of {loss.moved} copies"
    if loss.drop is None:
        least = f", least at {where}" if loss.consistency < 1 else ""
        return f"{agrees}{least}; its confidence goes from {loss.confidence_upright:.0%} to {loss.confidence_moved:.0%}"
    points, half = 100 * loss.drop.value, 50 * (loss.drop.high - loss.drop.low)
    verb = "loses" if points >= 0 else "gains"
    digits = 0 if abs(points) >= 10 else 1
    said = f"{verb} {abs(points):.{digits}f} ± {half:.{digits}f} points when {loss.moved}"
    worst = f"; worst at {where}" if loss.drop.value else ""
    return f"{said}{worst}; {agrees}"


def _remedy(losses: dict[str, Loss], evaluation: Evaluation, remedy: Remedy | None, in_python: bool) -> Remedy | None:
    notable = [name for name, loss in losses.items() if loss.notable]
    if not notable:
        return None
    if remedy is not None or evaluation.rectified is not None:
        return remedy
    primitives = {"turned": "rotation", "scaled": "scale", "moved": evaluation.group}
    wanted, labels = [primitives[name] for name in notable], evaluation.bare.mean is not None
    command = train_command(evaluation.data, evaluation.model, labels, wanted)
    if in_python:
        unlabelled = "" if labels else ", labels=False"
        command = (
            f"tokenstn.train({evaluation.data!r}, classifier=model, primitives={wanted!r}{unlabelled}, "
            "out='runs/rectified')"
        )
    return Remedy("put a rectifier in front of it; the classifier stays as it is, and no labels are needed", command)


def _next_steps(losses: dict[str, Loss], evaluation: Evaluation, answers: Answers, limited: bool) -> tuple[str, ...]:
    steps: list[str] = []
    notable = [name for name, loss in losses.items() if loss.notable]
    if evaluation.rectified is None and losses and not notable:
        others = [name for name in ("rotation", "scale", "rotoscale", "reflection") if name != evaluation.group]
        if SAME_ANSWER in evaluation.warnings:
            steps.append("mind the warning before you call it robust")
        elif is_low(evaluation):
            steps.append(LOW_ALREADY)
        elif any(loss.drop is not None and loss.drop.high > WIDE for loss in losses.values()):
            steps.append(f"{evaluation.images} images are too few to call it robust: some points may be lost unseen")
        else:
            steps.append(f"it needs no rectifier for these movements; other groups can be tried: {', '.join(others)}")
    elif evaluation.rectified is not None and evaluation.rectified.mean is not None:
        steps.append(
            f"with its rectifier it reaches {evaluation.rectified.mean:.1%} over the group, without it "
            f"{evaluation.bare.mean or 0.0:.1%}: tokenstn evaluate shows what was corrected"
        )
    turned = losses.get("turned")
    if turned is not None and turned.drop is not None and turned.drop.high < 0:
        steps.append(
            f"it does better on turned images than on images {evaluation.as_they_come}: look whether they stand upright"
        )
    if notable:
        named = _worst_classes(evaluation, answers)
        if named:
            steps.append(f"look at {named}, which lose most; where orientation is the label, rectifying would hurt")
    steps += [f"mind that {control.sentence}" for control in evaluation.controls if control.warns]
    upright = evaluation.bare.upright
    if upright is not None and upright >= TOO_GOOD and evaluation.images >= FEW_TO_BE_RIGHT:
        steps.append(
            f"mind that {upright:.1%} right {evaluation.as_they_come} is what a classifier reaches on images that it "
            "was trained with: if these are such images, ask again with others"
        )
    if upright is None:
        steps.append("give labels of its own classes (a folder for each, or a manifest) to see accuracy too")
    if any(loss.drop is not None and loss.drop.high - loss.drop.low > 2 * WIDE for loss in losses.values()):
        how = "raise --limit" if limited else "there are no more of them here"
        steps.append(f"use more than {evaluation.images} images for a narrower interval: {how}")
    return tuple(steps)


def _worst_classes(evaluation: Evaluation, answers: Answers) -> str:
    """Up to three classes by what they lose over the group; classes with too few images are left out."""
    if answers.multi_label or evaluation.bare.by_element is None:
        return ""
    right, labels = answers.bare.right, answers.labels
    drop = right[0] - right[1:].mean(0)
    lost = {
        name: drop[labels == k].mean().item()
        for k, name in enumerate(evaluation.classes)
        if int((labels == k).sum()) >= FEW_IMAGES
    }
    worst = sorted(lost, key=lambda name: -lost[name])[:3]
    return ", ".join(f"{name} (−{100 * lost[name]:.0f} points)" for name in worst if lost[name] > NOTABLE_DROP)
