"""Polygons in an image: cut off at its edges, and their area."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


def clip(polygon: Points, width: float, height: float) -> Points:
    """The part of a polygon ``(N, 2)`` that lies in the image; ``(0, 2)`` where none does.

    Each edge of the image cuts off what lies beyond it. A polygon that is not convex may get an edge along the border.

    >>> clip(np.array([[-2.0, 0.0], [2.0, 0.0], [2.0, 2.0], [-2.0, 2.0]]), 4, 4).tolist()
    [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]]
    """
    for axis, sign, limit in ((0, 1.0, 0.0), (0, -1.0, -width), (1, 1.0, 0.0), (1, -1.0, -height)):
        inside = sign * polygon[:, axis] - limit  # how far inside of this edge each point lies
        kept: list[Points] = []
        for place in range(len(polygon)):
            before = place - 1
            if (inside[before] >= 0) != (inside[place] >= 0):
                share = inside[before] / (inside[before] - inside[place])
                kept.append(polygon[before] + share * (polygon[place] - polygon[before]))
            if inside[place] >= 0:
                kept.append(polygon[place])
        polygon = np.array(kept).reshape(-1, 2)
        if len(polygon) == 0:
            break
    return polygon


def area(polygon: Points) -> float:
    """The area of a polygon ``(N, 2)``.

    >>> area(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 2.0]]))
    3.0
    """
    x, y = polygon.T
    return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2)
