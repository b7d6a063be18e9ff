"""The gallery: single images with what was found and corrected, ready for the page.

``rotation_deg`` of an example is the pose that was found: how the object sits in the input, clockwise. The dial shows
it as a hand, its spread as a sector, and the way back to upright as an arrow.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from PIL import Image

from tokenstn.evaluation.results import Example
from tokenstn.reports.numbers import percent
from tokenstn.reports.plot import printable

LARGEST_SIDE = 240  # pixels: twice what the page shows, for sharp screens
SMALL = 80  # pixels: kept without loss, and shown with hard edges
RADIUS = 40
ANY_ANGLE = 100.0  # degrees of spread, above which a belief about the angle says nothing
KINDS = {
    "fixed": ("Fixed", "Wrong before, right after."),
    "broken": ("Broken", "Right before, wrong after."),
    "ambiguous": ("Ambiguous", "Several poses fit these images: the belief about the pose is broad."),
}


@dataclass(frozen=True)
class Dial:
    """Paths in a square from −50 to 50, with upright at the top."""

    hand: tuple[float, float]
    sector: str
    arrow: str
    head: str


@dataclass(frozen=True)
class Card:
    """One example as the page shows it; names are not escaped yet."""

    name: str
    image: str
    rectified: str
    pixelated: bool
    dial: Dial | None
    pose: tuple[str, ...]
    label: str | None
    answers: tuple[tuple[str, str, str, bool | None], ...]
    entropy: str


@dataclass(frozen=True)
class Group:
    """The examples of one kind."""

    kind: str
    title: str
    sentence: str
    cards: tuple[Card, ...]


def gallery(examples: Iterable[Example]) -> list[Group]:
    """By kind: fixed, broken, ambiguous, then whatever else came."""
    by_kind: dict[str, list[Card]] = {kind: [] for kind in KINDS}
    for example in examples:
        by_kind.setdefault(example.kind, []).append(_card(example))
    return [
        Group(kind, *KINDS.get(kind, (kind.capitalize(), "")), cards=tuple(cards))
        for kind, cards in by_kind.items()
        if cards
    ]


def _card(example: Example) -> Card:
    label = None if example.label is None else printable(example.label)
    answers = tuple(
        (when, printable(answer), percent(confidence), None if example.label is None else answer == example.label)
        for when, answer, confidence in (
            ("before", example.bare, example.bare_confidence),
            ("after", example.answer, example.confidence),
        )
    )
    return Card(
        name=printable(example.name),
        image=data_uri(example.image),
        rectified=data_uri(example.rectified),
        pixelated=max(np.asarray(example.image).shape[:2]) <= SMALL,
        dial=None if example.rotation_deg is None else dial(example.rotation_deg, example.spread_deg or 0.0),
        pose=_pose(example),
        label=label,
        answers=answers,
        entropy=", ".join(f"{name} {value:.2f}" for name, value in example.entropy.items()),
    )


def _pose(example: Example) -> tuple[str, ...]:
    """What was found, in words."""
    said = []
    if example.rotation_deg is not None:
        turn = wrapped(example.rotation_deg)
        if example.spread_deg is not None and example.spread_deg > ANY_ANGLE:
            said.append("any angle")
        else:
            spread = "" if example.spread_deg is None else f" ± {example.spread_deg:.0f}°"
            said.append(f"{abs(turn):.0f}°{spread}")
            said.append("clockwise" if turn >= 0.5 else "anticlockwise" if turn <= -0.5 else "upright")
    if example.scale is not None:
        said.append(f"size ×{example.scale:.2f}")
    return tuple(said)


def wrapped(degrees: float) -> float:
    """Between −180 and 180.

    >>> wrapped(350.0), wrapped(-190.0)
    (-10.0, 170.0)
    """
    return (degrees + 180) % 360 - 180


def dial(rotation_deg: float, spread_deg: float) -> Dial:
    """The hand at the angle, a sector of ± the spread, and an arrow from the hand back to the top."""
    turn = wrapped(rotation_deg)
    spread = min(abs(spread_deg), 179.0)
    return Dial(
        hand=_point(turn, RADIUS),
        sector=_sector(turn - spread, turn + spread),
        arrow=_arc(turn, 0.0, 0.62 * RADIUS) if abs(turn) >= 12 else "",
        head=_head(turn) if abs(turn) >= 12 else "",
    )


def _point(degrees: float, radius: float) -> tuple[float, float]:
    """Clockwise from the top, y down."""
    angle = math.radians(degrees)
    return round(radius * math.sin(angle), 2), round(-radius * math.cos(angle), 2)


def _arc(start: float, end: float, radius: float) -> str:
    (x0, y0), (x1, y1) = _point(start, radius), _point(end, radius)
    return f"M{x0} {y0}A{radius} {radius} 0 {int(abs(end - start) > 180)} {int(end > start)} {x1} {y1}"


def _sector(start: float, end: float) -> str:
    return f"{_arc(start, end, RADIUS)}L0 0Z"


def _head(turn: float) -> str:
    """A triangle at the top whose tip points the way the arrow runs."""
    side = -1 if turn > 0 else 1
    y = -0.62 * RADIUS
    return f"M{5 * side} {y:.2f}L{-4 * side} {y - 5.5:.2f}L{-4 * side} {y + 5.5:.2f}Z"


def data_uri(pixels: np.ndarray) -> str:
    """uint8 pixels ``(h, w, 3)`` or ``(h, w)`` as an address that holds the picture itself."""
    image = Image.fromarray(np.ascontiguousarray(pixels)).convert("RGB")
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE), Image.Resampling.LANCZOS)
    small = max(image.size) <= SMALL
    stored = io.BytesIO()
    if small:
        image.save(stored, format="PNG", optimize=True)
    else:
        image.save(stored, format="JPEG", quality=88)
    kind = "png" if small else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(stored.getvalue()).decode()}"
