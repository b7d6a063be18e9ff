"""Evaluations side by side: whether they may be compared, and by how much they differ, with an interval.

Both sides answered on the same images, so the difference is taken image by image, and whole images, or groups of them,
are what its interval counts. Where the answers were not kept, only the two intervals are known; their combination holds
for independent images and is wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from tokenstn.evaluation.answers_file import KeptAnswers, KeptResponses
from tokenstn.evaluation.intervals import paired_difference
from tokenstn.evaluation.results import Evaluation, Interval, Scores

FIRST_SIGNS = 8  # of a checksum, enough to tell two apart


@dataclass(frozen=True)
class Compared:
    """One answerer of one run: what it scored and, where they were kept, its answers and those of the whole run."""

    run: str
    answerer: str
    scores: Scores
    kept: KeptAnswers | None

    @property
    def responses(self) -> KeptResponses | None:
        """The answers of this one."""
        if self.kept is None:
            return None
        return self.kept.bare if self.answerer == "bare" else self.kept.rectified


@dataclass(frozen=True)
class Difference:
    """A score minus that of the reference. interval: None where nothing is known about it."""

    value: float
    interval: Interval | None
    paired: bool


def require_comparable(names: Sequence[str], evaluations: Sequence[Evaluation]) -> None:
    """Refuse evaluations of other images or under other movements than the first: their scores mean other things."""
    for name, evaluation in zip(names[1:], evaluations[1:], strict=True):
        apart = _apart(evaluations[0], evaluation)
        if apart:
            raise ValueError(
                f"{names[0]} and {name} cannot be compared: they differ in {', '.join(apart)}. Evaluate both on the "
                "same images under the same group: tokenstn evaluate MODEL --data IMAGES"
            )


def answerers_of(name: str, evaluation: Evaluation, kept: KeptAnswers | None) -> list[Compared]:
    """The one that a person gets comes last: rectified where there is a rectifier."""
    found = [Compared(name, "bare", evaluation.bare, kept)]
    if evaluation.rectified is not None:
        found.append(Compared(name, "rectified", evaluation.rectified, kept))
    return found


def over_the_orbit(one: Compared, reference: Compared) -> Difference:
    """By how much the accuracy over the orbit differs; without labels, the share of moved copies with one answer."""
    a, b = one.scores, reference.scores
    if a.mean is None or b.mean is None:
        return _difference(a.consistency - b.consistency, _agreement(one), _agreement(reference), None)
    return _difference(a.mean - b.mean, _right(one), _right(reference), _unpaired(a.mean_ci, b.mean_ci))


def upright(one: Compared, reference: Compared) -> Difference | None:
    """By how much the accuracy on images as they come differs; None without labels."""
    a, b = one.scores.upright, reference.scores.upright
    if a is None or b is None:
        return None
    return _difference(a - b, _right(one, elements=1), _right(reference, elements=1), None)


class _Sample(NamedTuple):
    """Values ``(E, n)`` of answers, and the clusters ``(n,)`` of their images."""

    values: Tensor
    clusters: Tensor


def _difference(value: float, mine: _Sample | None, theirs: _Sample | None, unpaired: Interval | None) -> Difference:
    if mine is None or theirs is None or mine.values.shape != theirs.values.shape:
        return Difference(value, unpaired, False)
    # by group where one of the two knows groups
    clusters = min(mine.clusters, theirs.clusters, key=lambda clusters: len(clusters.unique()))
    return Difference(value, paired_difference(mine.values, theirs.values, clusters), True)


def _right(who: Compared, elements: int | None = None) -> _Sample | None:
    if who.kept is None or who.responses is None:
        return None
    known = who.kept.labelled
    return _Sample(who.responses.right[:elements, known], who.kept.clusters[known])


def _agreement(who: Compared) -> _Sample | None:
    if who.kept is None or who.responses is None:
        return None
    same = (who.responses.predicted == who.responses.predicted[:1]).double()
    return _Sample(same[1:] if len(same) > 1 else same, who.kept.clusters)


def _unpaired(a: Interval | None, b: Interval | None) -> Interval | None:
    if a is None or b is None:
        return None
    value = a.value - b.value
    below = math.hypot(a.value - a.low, b.high - b.value)
    above = math.hypot(a.high - a.value, b.value - b.low)
    return Interval(value, value - below, value + above)


def _apart(a: Evaluation, b: Evaluation) -> list[str]:
    """In what two evaluations differ that makes their scores incomparable, as parts of a sentence."""
    shears = "shear" in a.group or "shear" in b.group
    aspects = (
        ("the split", a.split, b.split),
        ("the number of images", f"{a.images:,}", f"{b.images:,}"),
        ("the labels", _labelled(a), _labelled(b)),
        ("the group", f"{a.group} of {len(a.elements)}", f"{b.group} of {len(b.elements)}"),
        ("the seed of the random shear", a.provenance.seed if shears else 0, b.provenance.seed if shears else 0),
    )
    found = [f"{what} ({one} against {other})" for what, one, other in aspects if one != other]
    if not found and a.elements != b.elements:
        found.append("the elements of the group")
    one, other = a.provenance.data_sha256, b.provenance.data_sha256
    if one != other:
        found.append(f"the images themselves (checksum {one[:FIRST_SIGNS]}… against {other[:FIRST_SIGNS]}…)")
    return found


def _labelled(evaluation: Evaluation) -> str:
    return "without" if evaluation.bare.mean is None else "with"
