"""The figures in the columns of a benchmark's tables, one for each finished cell."""

from __future__ import annotations

from collections.abc import Sequence

from tokenstn.evaluation.bench_results import UPRIGHT, BenchResults, Cell, OrbitScores
from tokenstn.evaluation.results import Cost

OF_AN_ORBIT = ("worst", "consistency", "auc")


def upright_scores(cell: Cell, results: BenchResults) -> OrbitScores | None:
    """The scores over an orbit that begins with the images as they come."""
    plain = [orbit.name for orbit in results.orbits if not orbit.mask and orbit.first_shear == 0]
    return cell.orbits.get((*plain, UPRIGHT)[0])


def column_values(results: BenchResults, row: str, data: str, column: str) -> list[float]:
    """The figure of a column for each finished seed, as far as there is one."""
    found = (_value(results, cell, column) for cell in results.cells_of(row, data))
    return [value for value in found if value is not None]


def how_trained(cell: Cell) -> str:
    """Which classifier a method stands on, what became of it, and whether labels were looked at.

    >>> how_trained(Cell("stn", "moths", 0, "done", classifier="augmented", settings={"method": "stn", "recipe": None}))
    'augmented classifier as it is'
    """
    recipe = cell.settings.get("recipe")
    if not recipe:
        return f"{cell.classifier} classifier as it is"
    kept = "frozen" if recipe["classifier"] == "frozen" else "half frozen"
    # a rival learns from its answers, and so does the free matrix; for the others their recipe says it
    method = cell.settings["method"]
    by_recipe = method.startswith("tokenstn") and method != "tokenstn-matrix"
    labels = recipe["classification"] > 0 if by_recipe else True
    return f"{cell.classifier} classifier, {kept}; {'labels' if labels else 'no labels'}"


def milliseconds(cost: Cost) -> list[tuple[int, float]]:
    """Of one image, for each number of views; the first is the classifier alone, timed in turns with the others."""
    return [(views, 1000 / speed) for views, speed in cost.throughput]


def _value(results: BenchResults, cell: Cell, column: str) -> float | None:
    """The figure of one cell."""
    first = cell.orbits.get(results.orbits[0].name)
    upright, cost = upright_scores(cell, results), cell.cost
    if column == UPRIGHT:
        return None if upright is None else upright.upright
    if column == "auc":
        return None if upright is None else upright.auc_upright
    if column in ("fixed", "broken", "views"):
        return None if first is None else _of_orbit(first, column)
    if column == "seconds":
        return cell.train_seconds
    if column == "parameters":
        return None if cost is None else float(cost.localizer_parameters)
    if column in ("flops", "ms", "ratio"):
        if cost is None or not cost.flops:
            return None
        looked = (first.views if first is not None else None) or 0.0
        points = cost.flops if column == "flops" else milliseconds(cost)
        return _between(points, looked) / (points[0][1] if column == "ratio" else 1)
    orbit, _, part = column.rpartition(".")
    scores = cell.orbits.get(orbit if part in OF_AN_ORBIT else column)
    if scores is None:
        return None
    return getattr(scores, part) if part in OF_AN_ORBIT else scores.mean


def _between(points: Sequence[tuple[int, float]], at: float) -> float:
    """The value at a number of views, on the line between its neighbours: every view costs the same.

    >>> _between([(0, 1.0), (2, 3.0), (4, 5.0)], 3.5), _between([(0, 1.0), (2, 3.0)], 4.0)
    (4.5, 5.0)
    """
    if len(points) == 1:
        return points[0][1]
    place = min(max(1, sum(views < at for views, _ in points)), len(points) - 1)
    (a, low), (b, high) = points[place - 1], points[place]
    return low + (high - low) * (at - a) / (b - a)


def _of_orbit(scores: OrbitScores, column: str) -> float | None:
    if column == "views":
        return scores.views
    if scores.flips is None:
        return None
    counts = scores.flips.overall
    part, whole = (counts.fixed, counts.base_wrong) if column == "fixed" else (counts.broken, counts.base_right)
    return part / whole if whole else None
