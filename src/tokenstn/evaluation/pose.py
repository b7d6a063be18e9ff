"""How well the poses are found: against the pose that was applied, and against the pose of the same image unmoved.

The first asks that the images come upright. The second, equivariance, asks nothing of the data: turning the input by φ
changes its pose by θ → θ + rφ, and scaling it multiplies the scale.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tokenstn.evaluation.answers import Answers
from tokenstn.evaluation.collapse import (
    LARGE_TURN,
    LARGE_ZOOM,
    PrimitiveHealth,
    collapse_report,
    distance,
    equivariance_errors,
    spread_of,
)
from tokenstn.evaluation.results import PoseScores
from tokenstn.geometry import Primitive, Reflection, Rotation, Scale

UNITS = {"rotation": "°", "scale": "%"}  # others keep the primitive's own


def pose_scores(answers: Answers, primitives: tuple[Primitive, ...], poses: str = "absolute") -> dict[str, PoseScores]:
    """Errors, equivariance and health of each primitive over the orbit; nothing for a bare classifier.

    Args:
        primitives: those of the model.
        poses: "absolute" where the images come upright, so that the applied pose is the pose to find; "relative" where
            only changes of the pose are known.
    """
    if answers.poses is None:
        return {}
    health = _health(answers, primitives)
    return {primitive.name: _scores(answers, primitive, health[primitive.name], poses) for primitive in primitives}


def pose_failed(answers: Answers, primitives: tuple[Primitive, ...]) -> Tensor | None:
    """Where the rotation did not follow the turning of the input by more than 30°, ``(E, N)`` bool.

    False throughout for element 0, which was not turned; None without a rotation.
    """
    return _not_followed(answers, primitives, Rotation, LARGE_TURN)


def scale_failed(answers: Answers, primitives: tuple[Primitive, ...]) -> Tensor | None:
    """Where the scale did not follow that of the input by more than a factor of 1.1, as :func:`pose_failed`."""
    return _not_followed(answers, primitives, Scale, LARGE_ZOOM)


def applied_values(answers: Answers, primitive: Primitive) -> Tensor:
    """What was applied to each image under each element, in the network's frame, as the model could best say it.

    ``(E, N)``, or ``(E, N, 2)`` for a translation; a value outside the primitive's range is replaced by its end.
    """
    elements, images = len(answers.group), len(answers.rows)
    if primitive.name == "shear":
        return answers.first_shear.expand(elements, images).clamp(*primitive.range)
    value = getattr(answers.group.poses, primitive.name).double()
    if primitive.name == "translation":
        # half a side of the photo is not half a side of what was cut out of it
        return (value[:, None, :] * answers.zoom[:, None]).clamp(*primitive.range)
    value = value[:, None].expand(elements, images)
    if isinstance(primitive, Rotation):
        value = torch.remainder(value + math.pi, 2 * math.pi) - math.pi
    return value.clamp(*primitive.range)


def _not_followed(
    answers: Answers, primitives: tuple[Primitive, ...], kind: type[Primitive], large: float
) -> Tensor | None:
    primitive = next((primitive for primitive in primitives if isinstance(primitive, kind)), None)
    if answers.poses is None or primitive is None:
        return None
    value = answers.poses.value[primitive.name].double()
    before, move = _unmoved(answers, primitive.name), _moves(answers, primitive.name)
    side = _unmoved(answers, "reflection") if "reflection" in answers.poses.value else 1.0
    return (equivariance_errors(primitive, before, move, value.flatten(), side) > large).reshape(value.shape)


def _scores(answers: Answers, primitive: Primitive, health: PrimitiveHealth, poses: str) -> PoseScores:
    assert answers.poses is not None
    found = answers.poses.value[primitive.name].double().flatten(0, 1)
    error, failures = None, None
    if poses == "absolute":
        errors = distance(primitive, found, applied_values(answers, primitive).flatten(0, 1))
        error = for_people(primitive, errors.median().item())
        large = {"rotation": LARGE_TURN, "scale": LARGE_ZOOM, "reflection": 1.0}.get(primitive.name)
        failures = None if large is None else (errors > large).double().mean().item()
    followed = health.equivariance_error
    return PoseScores(
        unit=UNITS.get(primitive.name, primitive.unit),
        error=error,
        failures=failures,
        equivariance_error=None if followed is None else for_people(primitive, followed),
        equivariance_failures=health.equivariance_failures,
        spread_of_poses=for_people(primitive, spread_of(primitive, found)),
        share_at_bound=health.at_bound,
        collapsed=health.collapsed,
        sentence=health.sentence,
    )


def for_people(primitive: Primitive, value: float) -> float:
    """A distance or spread in the unit that people read: degrees, percent for a scale.

    >>> from tokenstn.geometry import Scale
    >>> round(for_people(Scale(), math.log(1.1)), 6)
    10.0
    """
    if isinstance(primitive, Rotation):
        return math.degrees(value)
    return 100 * math.expm1(value) if isinstance(primitive, Scale) else value


def _health(answers: Answers, primitives: tuple[Primitive, ...]) -> dict[str, PrimitiveHealth]:
    """The report of ``collapse`` over all moved copies; over the images as they come where nothing was moved."""
    assert answers.poses is not None
    found = answers.poses.value
    elements, images = len(answers.group), len(answers.rows)
    if elements == 1:
        return collapse_report(primitives, {name: value[0] for name, value in found.items()})
    moved = slice(images, None)  # all but element 0
    moves = {
        primitive.name: _moves(answers, primitive.name)[moved]
        for primitive in primitives
        if isinstance(primitive, Rotation | Scale | Reflection)
    }
    unmoved = {name: _unmoved(answers, name)[moved] for name in found}
    return collapse_report(
        primitives, unmoved, (moves, {name: value.flatten(0, 1)[moved] for name, value in found.items()})
    )


def _moves(answers: Answers, name: str) -> Tensor:
    """How each copy was moved, ``(E · N,)``."""
    return getattr(answers.group.poses, name).double().repeat_interleave(len(answers.rows))


def _unmoved(answers: Answers, name: str) -> Tensor:
    """The value found for the same image as it comes, once for each copy, ``(E · N, …)``."""
    assert answers.poses is not None
    value = answers.poses.value[name].double()
    return value[:1].expand_as(value).flatten(0, 1)
