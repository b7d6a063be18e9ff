"""A safety test before training: is orientation itself the label?

Where a left arrow turned by 180° *is* a right arrow, a rectifier that may turn images takes the label away. The
classifier tells: it is confident on the turned image, and names one other class, and the other class comes back the
same way. An upright classifier that is merely lost on turned images errs in one direction, or unsurely, or to several
classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.evaluation.intervals import wilson_interval
from tokenstn.geometry import Pose, Primitive, Reflection, Rotation, as_primitives, warp

CONFIDENT = 0.7  # probability from which a prediction counts
LEAST_SHARE = 0.5  # of a class that must become its partner, and of the partner that must come back
STANDARD_ERRORS = 2.0  # by which the share must be above that


@dataclass(frozen=True)
class LabelConflict:
    """Two classes that a movement turns into each other: ``primitive`` is the one to switch off.

    share: of the rightly and confidently classified images that the movement takes to the other class, the smaller of
    both directions.
    """

    primitive: str
    movement: str
    classes: tuple[int, int]
    share: float
    sentence: str


@dataclass(frozen=True)
class _Movement:
    primitive: str
    name: str
    there: Pose
    back: Pose


@torch.no_grad()
def orientation_predicts_label(
    predict: Callable[[Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
    primitives: Iterable[str | Primitive] = ("rotation", "reflection"),
    class_names: Sequence[str] | None = None,
    batch_size: int = 256,
) -> tuple[LabelConflict, ...]:
    """The pairs of classes for which orientation is the label, each once for every primitive; none is good news.

    Args:
        predict: images ``(b, C, H, W)`` to probabilities ``(b, classes)``, such as the bare classifier's.
        images, labels: ``(N, C, H, W)`` and ``(N,)`` int64, upright and from every class; a hundred of each are plenty.
        primitives: those to be switched on. Rotation is tried at the quarter turns inside its bound (at the bound, when
            it is smaller), reflection by mirroring both ways; the others cannot turn one thing into another.
        class_names: for the sentences; numbers when None.

    A pair is reported when more than half of either class, by two standard errors, becomes the other confidently.
    """
    before = _confident_classes(predict, images, Pose.of(), batch_size)
    right = before == labels
    classes = int(labels.max()) + 1
    names = class_names if class_names is not None else [str(k) for k in range(classes)]
    found: dict[tuple[str, int, int], LabelConflict] = {}
    for movement in _movements(as_primitives(primitives)):
        there = _shares(labels, right, _confident_classes(predict, images, movement.there, batch_size), classes)
        back = _shares(labels, right, _confident_classes(predict, images, movement.back, batch_size), classes)
        for a, b in _mutual(there, back, torch.bincount(labels[right], minlength=classes)):
            key = (movement.primitive, min(a, b), max(a, b))
            share = min(there[a, b].item(), back[b, a].item())
            if key in found and found[key].share >= share:
                continue
            sentence = (
                f"{movement.name} turns {names[a]} into {names[b]} ({there[a, b]:.0%} of its images) and back "
                f"({back[b, a]:.0%}): orientation tells them apart, so switch {movement.primitive} off unless other "
                "details do so too"
            )
            found[key] = LabelConflict(movement.primitive, movement.name, key[1:], share, sentence)
    return tuple(found[key] for key in sorted(found))


def _movements(primitives: tuple[Primitive, ...]) -> list[_Movement]:
    movements = []
    for primitive in primitives:
        if isinstance(primitive, Rotation):
            angles = [a for a in (math.pi / 2, math.pi) if a <= primitive.bound] or [primitive.bound]
            movements += [
                _Movement("rotation", f"a turn by {math.degrees(a):.0f}°", Pose.of(rotation=a), Pose.of(rotation=-a))
                for a in angles
            ]
        elif isinstance(primitive, Reflection):
            sideways, over = Pose.of(rotation=math.pi, reflection=-1.0), Pose.of(reflection=-1.0)
            movements.append(_Movement("reflection", "mirroring left-right", sideways, sideways))
            movements.append(_Movement("reflection", "mirroring up-down", over, over))
    return movements


def _confident_classes(predict: Callable[[Tensor], Tensor], images: Tensor, pose: Pose, batch_size: int) -> Tensor:
    """The predicted classes of images to which a pose is applied, ``(N,)``, −1 where the classifier is unsure."""
    matrix = pose.matrix.to(images.device)
    classes = []
    for batch in images.split(batch_size):
        confidence, predicted = predict(warp(batch, matrix, inverse=True)).max(1)
        classes.append(torch.where(confidence >= CONFIDENT, predicted, -1))
    return torch.cat(classes)


def _shares(labels: Tensor, right: Tensor, after: Tensor, classes: int) -> Tensor:
    """Of each class's rightly classified images, the share that each class then gets, ``(classes, classes)``."""
    counted = right & (after >= 0) & (after < classes)
    pairs = torch.bincount(labels[counted] * classes + after[counted], minlength=classes**2)
    total = torch.bincount(labels[right], minlength=classes).clamp_min(1)
    return pairs.reshape(classes, classes) / total.unsqueeze(1)


def _mutual(there: Tensor, back: Tensor, counts: Tensor) -> list[tuple[int, int]]:
    """The pairs (a, b), a ≠ b, with more than half going there and coming back, each by two standard errors."""
    ways = _surely_most(there, counts) & _surely_most(back, counts).T
    return [(int(a), int(b)) for a, b in ways.nonzero().tolist() if a != b]


def _surely_most(shares: Tensor, counts: Tensor) -> Tensor:
    """Whether the lower end of the share's interval lies above the least share; counts belong to the rows."""
    low, _ = wilson_interval(shares, counts.unsqueeze(1).clamp_min(1), STANDARD_ERRORS)
    return low > LEAST_SHARE
