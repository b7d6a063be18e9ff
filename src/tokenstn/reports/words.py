"""What an evaluation means, in sentences: the verdict, what was done to the images, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from tokenstn.evaluation.remedy import LOW_ALREADY, SAME_ANSWER, is_low, train_command
from tokenstn.evaluation.results import Element, Evaluation, Scores
from tokenstn.reports.numbers import count, percent, points
from tokenstn.reports.orbit import angles, scales

ROBUST_LOSS = 0.02  # of accuracy, on moved images
ROBUST_CONSISTENCY = 0.95


@dataclass(frozen=True)
class Advice:
    """What to do next, and the command for it where there is one."""

    sentence: str
    command: str | None = None


def movement(evaluation: Evaluation) -> str:
    """What the group does to an image, as a participle: "turned and resized"."""
    elements = evaluation.elements
    done = [
        word
        for word, happens in (
            ("sheared", "shear" in evaluation.group),
            ("turned", len(angles(elements)) > 1),
            ("resized", len(scales(elements)) > 1),
            ("mirrored", any(element.reflection < 0 for element in elements)),
            ("shifted", any(element.translation != (0.0, 0.0) for element in elements)),
        )
        if happens
    ]
    return " and ".join([", ".join(done[:-1]), done[-1]] if len(done) > 1 else done) or "moved"


def place(element: Element) -> str:
    """Where in the orbit an element is.

    >>> place(Element(rotation_deg=135.0, scale=0.75))
    '135° and size ×0.75'
    """
    parts = []
    if element.reflection < 0:
        parts.append("mirrored")
    if element.rotation_deg or (element.scale == 1 and element.translation == (0.0, 0.0) and not parts):
        parts.append(f"{element.rotation_deg:.4g}°")
    if element.scale != 1:
        parts.append(f"size ×{element.scale:.3g}")
    if element.translation != (0.0, 0.0):
        parts.append(f"shifted by ({element.translation[0]:.3g}, {element.translation[1]:.3g})")
    return " and ".join(parts)


def worst_place(evaluation: Evaluation, scores: Scores) -> str | None:
    """Where the accuracy is lowest, or without labels the agreement."""
    values = scores.by_element or scores.consistency_by_element
    if len(values) < 2 or min(values) == max(values):
        return None
    return place(evaluation.elements[min(range(len(values)), key=values.__getitem__)])


def headline(evaluation: Evaluation) -> str:
    """The verdict in one sentence."""
    bare, after, moved = evaluation.bare, evaluation.rectified, movement(evaluation)
    if after is None:
        if bare.mean is None or bare.upright is None:
            return f"The classifier gives the same answer on {percent(bare.consistency)} of {moved} copies."
        lost = _lost(bare)
        if lost < ROBUST_LOSS and is_low(evaluation):
            seen = f"{percent(bare.upright)} of images {evaluation.as_they_come}"
            return f"The classifier is right on {seen}, which is low already."
        if lost < ROBUST_LOSS:
            return f"The classifier hardly minds when images are {moved}: {points(-lost)}."
        return f"The classifier loses {points(lost).lstrip('+')} when images are {moved}."
    if bare.mean is None or after.mean is None:
        return (
            f"Rectified, {percent(after.consistency)} of {moved} copies get the same answer; "
            f"bare, {percent(bare.consistency)} do."
        )
    before, now = _moved(bare), _moved(after)
    if now <= before:
        return f"Rectification does not help here: {points(now - before)} over {moved} copies."
    return f"Rectification lifts accuracy on {moved} images from {percent(before)} to {percent(now)}."


def _moved(scores: Scores) -> float:
    """Accuracy on moved images alone: the mean over the orbit has the unmoved ones in it, a half of the smallest."""
    assert scores.by_element is not None
    return fmean(scores.by_element[1:] or scores.by_element)


def _lost(scores: Scores) -> float:
    assert scores.upright is not None
    return scores.upright - _moved(scores)


def subline(evaluation: Evaluation) -> str:
    """The second thing to know: the price upright, the worst place, the agreement."""
    bare, after = evaluation.bare, evaluation.rectified
    sentences = []
    if after is not None and bare.upright is not None and after.upright is not None:
        sentences.append(
            f"On the images {evaluation.as_they_come} it goes from {percent(bare.upright)} to {percent(after.upright)} "
            f"({points(after.upright - bare.upright)})."
        )
    elif bare.upright is not None and bare.mean is not None:
        unmoved = f"{percent(bare.upright)} {evaluation.as_they_come}"
        sentences.append(f"It has {unmoved} and {percent(bare.mean)} over the orbit.")
    scores = after if after is not None else bare
    where = worst_place(evaluation, scores)
    if where is not None:
        value = min(scores.by_element or scores.consistency_by_element)
        sentences.append(f"It is worst at {where} ({percent(value)}).")
    if scores.mean is not None and len(evaluation.elements) > 1:
        before = f", {percent(bare.consistency)} before" if after is not None else ""
        sentences.append(f"It agrees with itself on {percent(scores.consistency)} of the moved copies{before}.")
    return " ".join(sentences)


def advice(evaluation: Evaluation) -> Advice:
    """What to do next."""
    bare, after, flips = evaluation.bare, evaluation.rectified, evaluation.flips
    if after is None:
        robust = (
            bare.consistency >= ROBUST_CONSISTENCY
            if bare.mean is None or bare.upright is None
            else _lost(bare) < ROBUST_LOSS
        )
        if robust and SAME_ANSWER in evaluation.warnings:
            return Advice("Mind the warning before you call this robust.")
        if robust and is_low(evaluation):
            return Advice(f"{LOW_ALREADY[0].upper()}{LOW_ALREADY[1:]}.")
        if robust:
            return Advice("Nothing needs to be done for these movements. Try another group, or your own worst photos.")
        return Advice(
            "Train a rectifier in front of it; the classifier itself stays as it is, and no labels are needed.",
            train_command(evaluation.data, evaluation.model, labels=bare.mean is not None),
        )
    if flips is not None and flips.overall.broken > flips.overall.fixed:
        return Advice(
            f"Do not use this rectifier as it is: it breaks {count(flips.overall.broken)} answers and fixes "
            f"{count(flips.overall.fixed)}. See the broken ones in the gallery, and whether a primitive has collapsed."
        )
    if any(found.collapsed for found in evaluation.pose.values()):
        return Advice("A primitive has collapsed: train longer, or without that primitive. See “Poses”.")
    if evaluation.warnings or any(control.warns for control in evaluation.controls):
        return Advice(
            "Read the warnings before you rely on these figures. More epochs or images usually mend a loss on images "
            "as they come, more validation images a flag without a threshold; where a control warns, the figures are "
            "not about the pose alone."
        )
    return Advice("Look at the broken and ambiguous examples, then set a target risk from the risk–coverage curve.")
