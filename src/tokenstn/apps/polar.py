"""The belief about the angle as a drawing: a filled curve around the circle, and a needle for every view.

The top is upright and angles run clockwise, as on a clock. Colours are the page's, so that it follows light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tokenstn.apps.sight import Needle

RIM, HUB = 100.0, 34.0  # radii of the circle and of the empty middle


def dial(belief: Sequence[float] | None, needles: Sequence[Needle], turned: float | None, words: str) -> str:
    """An SVG of 284 by 260 units.

    Args:
        belief: densities at equally spaced angles from 0; only their shape is drawn.
        needles: the best view first.
        turned: the angle in radians that the person set, marked on the rim; None = not marked.
        words: what is to be seen, for those who do not see it.
    """
    parts = [
        f'<circle class="rim" r="{RIM:g}"/><circle class="rim" r="{HUB:g}"/>',
        "".join(_tick(degrees) for degrees in range(0, 360, 30)),
        _curve(belief) if belief is not None else "",
        "".join(_needle(needle, k == 0) for k, needle in reversed(list(enumerate(needles)))),
        _marker(turned) if turned is not None else "",
        f'<circle class="hub" r="5"/>{_labels()}',
    ]
    return f'<svg class="polar" viewBox="-142 -130 284 260" role="img" aria-label="{words}">{"".join(parts)}</svg>'


def _at(angle: float, radius: float) -> str:
    return f"{radius * math.sin(angle):.1f} {-radius * math.cos(angle):.1f}"


def _curve(belief: Sequence[float]) -> str:
    """Root of the density, so that low peaks are seen too."""
    top = max(*belief, 1e-9)
    step = 2 * math.pi / len(belief)
    points = [_at(k * step, HUB + (RIM - HUB) * math.sqrt(value / top)) for k, value in enumerate(belief)]
    inner = [_at(-k * step, HUB) for k in range(len(belief))]
    outer = f"M{'L'.join(points)}Z"
    return f'<path class="belief" d="{outer}M{"L".join(inner)}Z"/><path class="edge" d="{outer}"/>'


def _needle(needle: Needle, best: bool) -> str:
    width = 1.5 + 4.5 * math.sqrt(needle.weight)
    kind = "best" if best else "view"
    share = f"{100 * needle.weight:.0f} %"
    line = f'<path class="{kind}" stroke-width="{width:.1f}" d="M0 0L{_at(needle.angle, RIM - 4)}"/>'
    head = ""
    if best:
        left, right = _at(needle.angle - 0.09, RIM - 17), _at(needle.angle + 0.09, RIM - 17)
        head = f'<path class="head" d="M{_at(needle.angle, RIM)}L{left}L{right}Z"/>'
    return f"<g><title>{math.degrees(needle.angle):.0f}°, weight {share}</title>{line}{head}</g>"


def _marker(angle: float) -> str:
    """A triangle outside the rim that points inwards."""
    left, right = _at(angle - 0.075, RIM + 15), _at(angle + 0.075, RIM + 15)
    return f'<path class="set" d="M{_at(angle, RIM + 3)}L{left}L{right}Z"><title>where you turned it</title></path>'


def _tick(degrees: int) -> str:
    angle = math.radians(degrees)
    inner = RIM - (7 if degrees % 90 == 0 else 4)
    return f'<path class="tick" d="M{_at(angle, inner)}L{_at(angle, RIM)}"/>'


def _labels() -> str:
    places = ((0, -122, "0°"), (123, 0, "90°"), (0, 122, "180°"), (-124, 0, "−90°"))
    return "".join(f'<text x="{x}" y="{y}">{text}</text>' for x, y, text in places)
