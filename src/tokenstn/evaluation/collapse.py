"""Is the rectifier alive? What its predictions over a validation set look like, for each primitive.

A rectifier can settle on one answer for every image (mode collapse), or run into the end of its range. Both are seen
in the predictions alone, once images have been moved by known amounts. Rotations are measured in radians on the
circle, scales by their natural logarithm, so that half and double are equally far.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.geometry import Primitive, Reflection, Rotation, Scale, as_primitives, wrap_angle

EDGE = 0.01  # of the range: this near to its end is at the bound
MOST_AT_BOUND = 0.5
LEAST_SPREAD = 0.05  # of the spread that was applied
UNIFORM_ANGLE = math.pi / math.sqrt(3)  # standard deviation of a uniform angle, 104°
LARGE_TURN = math.radians(30)
LARGE_ZOOM = math.log(1.1)


@dataclass(frozen=True)
class PrimitiveHealth:
    """One primitive over a validation set, in its unit (radians; the natural logarithm for a scale).

    spread: standard deviation of the predictions, circular for a rotation and then at most 1.81 (104°), that of a
    uniform angle. at_bound: share of predictions within 1 % of the range's ends, for the moved images where there are
    any. from_identity: mean distance from the identity. equivariance_error: median distance between the pose of a moved
    image and the moved pose; equivariance_failures: share with more than 30°, or a factor of 1.1; both None where it
    was not measured.
    """

    spread: float
    at_bound: float
    from_identity: float
    equivariance_error: float | None
    equivariance_failures: float | None
    collapsed: bool
    sentence: str


def collapse_report(
    primitives: Iterable[str | Primitive],
    values: Mapping[str, Tensor],
    turned: tuple[Mapping[str, Tensor], Mapping[str, Tensor]] | None = None,
) -> dict[str, PrimitiveHealth]:
    """Spread, bound, distance and equivariance of the predicted poses of N images, for each primitive.

    Args:
        primitives: those of the model.
        values: predicted best values of the images as they are, ``{name: (N,)}``, ``(N, 2)`` for a translation.
        turned: how each of the images was then moved, ``{name: (N,)}``, and what was predicted for the moved images.
            Equivariance is asked of rotation and scale. Without it a collapse shows only at the bound: upright images
            are rightly all predicted alike.

    >>> angles = torch.linspace(-1, 1, 100)
    >>> turns, found = {"rotation": angles}, {"rotation": 0 * angles}
    >>> collapse_report(["rotation"], found, turned=(turns, found))["rotation"].sentence
    'rotation has collapsed: predictions spread over 0.0° while the applied ones spread over 34.0°'
    """
    moves, moved = turned if turned is not None else ({}, {})
    report: dict[str, PrimitiveHealth] = {}
    for primitive in as_primitives(primitives):
        name = primitive.name
        predicted = values[name].double()
        spread, at_bound = spread_of(primitive, predicted), _at_bound(primitive, predicted)
        # ±1 are all values of a reflection; half a turn is an angle like any other, but for images that stay there
        # when they are moved elsewhere
        stuck = at_bound & (not isinstance(primitive, Reflection) and not _full_circle(primitive))
        reason, error, failures = None, None, None
        if name in moves:
            applied, after = moves[name].double(), moved[name].double()
            at_bound = _at_bound(primitive, after)
            stuck = at_bound & (not isinstance(primitive, Reflection))
            wanted, there = spread_of(primitive, applied), spread_of(primitive, after)
            if there < LEAST_SPREAD * wanted:
                reason = (
                    f"predictions spread over {_say(primitive, there)} while the applied ones spread over "
                    f"{_say(primitive, wanted)}"
                )
            if isinstance(primitive, Rotation | Scale):
                side = values["reflection"].double() if "reflection" in values else 1.0
                errors = equivariance_errors(primitive, predicted, applied, after, side)
                error = errors.median().item()
                large = LARGE_TURN if isinstance(primitive, Rotation) else LARGE_ZOOM
                failures = (errors > large).double().mean().item()
                stuck = stuck & (errors > large) if _full_circle(primitive) else stuck
        if stuck.double().mean() > MOST_AT_BOUND:
            reason = f"{stuck.double().mean():.0%} of the predictions are at the end of its range"
        report[name] = PrimitiveHealth(
            spread=spread,
            at_bound=at_bound.double().mean().item(),
            from_identity=distance(primitive, predicted, torch.full_like(predicted, primitive.identity)).mean().item(),
            equivariance_error=error,
            equivariance_failures=failures,
            collapsed=reason is not None,
            sentence=f"{name} has collapsed: {reason}" if reason else f"{name} is alive",
        )
    return report


def spread_of(primitive: Primitive, values: Tensor) -> float:
    """Standard deviation over the set; over both components for a translation."""
    if isinstance(primitive, Rotation):
        length = torch.hypot(torch.cos(values).mean(), torch.sin(values).mean()).item()
        return min(math.sqrt(abs(2 * math.log(max(length, 1e-12)))), UNIFORM_ANGLE)
    values = torch.log(values) if isinstance(primitive, Scale) else values
    return (values - values.mean(0)).square().mean().sqrt().item()


def _at_bound(primitive: Primitive, values: Tensor) -> Tensor:
    """Which values are within 1 % of the range's ends, ``(N,)``; any component of a translation counts."""
    low, high = primitive.range
    if isinstance(primitive, Scale):
        low, high, values = math.log(low), math.log(high), torch.log(values)
    edge = EDGE * (high - low)
    at_end = (values <= low + edge) | (values >= high - edge)
    return at_end.reshape(len(values), -1).any(1)


def _full_circle(primitive: Primitive) -> bool:
    return isinstance(primitive, Rotation) and primitive.full_circle


def distance(primitive: Primitive, values: Tensor, others: Tensor) -> Tensor:
    """Distance between values, ``(N,)``."""
    if isinstance(primitive, Rotation):
        return wrap_angle(values - others).abs()
    if isinstance(primitive, Scale):
        return torch.log(values / others).abs()
    return (values - others).reshape(len(values), -1).norm(dim=1)


def equivariance_errors(
    primitive: Primitive, before: Tensor, move: Tensor, after: Tensor, side: Tensor | float
) -> Tensor:
    """How far each pose of a moved image is from the moved pose, ``(N,)``; a mirrored object turns the other way.

    A moved pose outside the range is replaced by its end, the nearest that the model can say.
    """
    low, high = primitive.range
    if isinstance(primitive, Scale):
        expected = (before * move).clamp(low, high)
    else:
        expected = wrap_angle(before + side * move).clamp(low, high)
    return distance(primitive, after, expected)


def _say(primitive: Primitive, spread: float) -> str:
    if isinstance(primitive, Rotation):
        return f"{math.degrees(spread):.1f}°"
    if isinstance(primitive, Scale):
        return f"{math.expm1(spread):.1%}"
    return f"{spread:.3g} {primitive.unit}"
