"""Curves of a diagnosis as bars in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tokenstn.evaluation.diagnosis import CurvePoint, Diagnosis

WIDTH = 30  # characters for 100 %
EIGHTHS = " ▏▎▍▌▋▊▉"


def curves(diagnosis: Diagnosis) -> str:
    """Accuracy, or agreement with itself where there are no labels, over the angle and over the size."""
    parts = []
    for title, unit, points in (
        ("turned clockwise by", "°", diagnosis.by_angle),
        ("resized to", "×", diagnosis.by_scale),
    ):
        if len(points) > 1:
            parts.append("\n".join([_heading(title, points), *(_row(point, unit) for point in points)]))
    return "\n\n".join(parts)


def bar(share: float, width: int = WIDTH) -> str:
    """A bar of blocks, to an eighth of a character.

    >>> bar(0.5, 4), bar(0.28125, 4), bar(0.0, 4)
    ('██  ', '█▏  ', '    ')
    """
    eighths = round(8 * width * min(max(share, 0.0), 1.0))
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).ljust(width)[:width]


def _heading(title: str, points: Sequence[CurvePoint]) -> str:
    what = "accuracy" if points[0].accuracy is not None else "same answer as unmoved"
    return f"{title:>20}   {what:<{WIDTH + 9}}mean confidence"


def _row(point: CurvePoint, unit: str) -> str:
    share = point.consistency if point.accuracy is None else point.accuracy
    at = f"{point.at:g}{unit}" if unit == "°" else f"{unit}{point.at:.3g}"
    return f"{at:>20}   {bar(share)} {share:>6.1%}  {point.confidence:>6.1%}"
