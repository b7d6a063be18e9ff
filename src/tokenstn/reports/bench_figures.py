"""Figures of a benchmark: the Pareto front of upright against orbit accuracy, and curves against a number of views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tokenstn.evaluation.bench_results import UPRIGHT, BenchResults
from tokenstn.reports.bench_columns import column_values
from tokenstn.reports.plot import INK, RECTIFIED, Plot, blank, look, percent_axis, printable

# colours that the colour-blind tell apart, and a marker of its own for each family
FAMILIES = {
    "ours": (RECTIFIED, "o", "this library"),
    "paper": ("#56b4e9", "s", "the paper's, on tokens"),
    "pixels": ("#7f7f7f", "^", "transformers on pixels"),
    "canonical": ("#aa3377", "D", "canonicalisers"),
    "search": ("#e69f00", "v", "search in testing"),
    "classifier": ("#d55e00", "P", "classifier alone"),
}
LINE_HEIGHT = 0.165  # inches of a label
WIDTH = 6.4


@dataclass(frozen=True)
class Point:
    """A row in the plane: means over the seeds, and the deviations where there are several."""

    title: str
    family: str
    upright: float
    orbit: float
    upright_spread: float
    orbit_spread: float
    best: bool = False


def pareto_points(results: BenchResults, data: str) -> list[Point]:
    """Every finished row of a data set; ``best``: no other is at least as good in both and better in one."""
    orbit = results.orbits[0].name
    found = []
    for row in results.rows:
        across, up = (column_values(results, row.name, data, column) for column in (UPRIGHT, orbit))
        if across and up:
            sideways, upwards = (stdev(values) if len(values) > 1 else 0.0 for values in (across, up))
            found.append(Point(row.title, row.family, fmean(across), fmean(up), sideways, upwards))
    return [replace(point, best=not _beaten(point, found)) for point in found]


@look()
def pareto_plot(results: BenchResults) -> Plot | None:
    """A panel for each data set with finished cells; None where there is none."""
    panels = [(data, pareto_points(results, data.name)) for data in results.data]
    panels = [(data, points) for data, points in panels if points]
    if not panels:
        return None
    heights = [max(2.4, LINE_HEIGHT * len(points) + 0.9) for _, points in panels]
    figure = blank(sum(heights) + 0.5, WIDTH)
    grid = figure.add_gridspec(len(panels), 2, height_ratios=heights, width_ratios=(1.0, 0.52), wspace=0.02)
    rows: list[tuple[str | float | int | None, ...]] = []
    orbit = results.orbits[0].name
    for place, (data, points) in enumerate(panels):
        axes, side = figure.add_subplot(grid[place, 0]), figure.add_subplot(grid[place, 1])
        _scatter(axes, points)
        axes.set_title(data.title, loc="left")
        axes.set_xlabel("accuracy on the images as they come")
        axes.set_ylabel(f"accuracy over {orbit}")
        axes.locator_params(axis="x", nbins=6)  # more of them would touch
        _labels(axes, side, points)
        rows += [(data.name, p.title, p.upright, p.orbit, p.upright_spread, p.orbit_spread, p.best) for p in points]
    shown = [family for family in FAMILIES if any(p.family == family for _, points in panels for p in points)]
    handles = [_handle(*FAMILIES[family]) for family in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, handletextpad=0.2, columnspacing=1.2)
    columns = ("data", "row", "upright", "orbit", "upright_std", "orbit_std", "on_the_front")
    seeds = f"Mean and standard deviation over {len(results.seeds)} seeds. " if len(results.seeds) > 1 else ""
    caption = f"{seeds}The line joins the rows that no other beats in both; their names are bold."
    return Plot(f"{results.experiment}-pareto", f"{results.title}: upright against orbit", figure, columns, tuple(rows),
                caption)  # fmt: skip


@look()
def curve_plot(results: BenchResults) -> Plot | None:
    """Accuracy over the first orbit and upright against the number that rows name; None where no row names one."""
    lines = list(dict.fromkeys(row.line for row in results.rows if row.line is not None))
    shown = [data for data in results.data if data.missing is None]
    if not lines or not shown:
        return None
    figure = blank(2.5 * len(shown) + 0.6, WIDTH)
    grid = figure.subplots(len(shown), 2, squeeze=False)
    rows: list[tuple[str | float | int | None, ...]] = []
    for pair, data in zip(grid, shown, strict=True):
        for axes, column in zip(pair, (UPRIGHT, results.orbits[0].name), strict=True):
            for number, line in enumerate(lines):
                found = _curve(results, data.name, line, column)
                color, marker = _LINES[number % len(_LINES)]
                if found:
                    at, value, spread = zip(*found, strict=True)
                    axes.errorbar(at, value, yerr=spread if any(spread) else None, color=color, marker=marker,
                                  label=line, capsize=2, elinewidth=0.8)  # fmt: skip
                rows += [(data.name, line, column, *one) for one in found]
            axes.set_xscale("log", base=2)
            ticks = sorted({row.at for row in results.rows if row.at is not None})
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.set_title(f"{data.title}: {column}", loc="left")
            axes.set_xlabel("views")
            percent_axis(axes, "y")
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2)
    columns = ("data", "line", "column", "views", "accuracy", "std")
    return Plot(f"{results.experiment}-views", f"{results.title}: accuracy against views", figure, columns, tuple(rows))


_LINES = (("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#aa3377", "D"), ("#7f7f7f", "v"), ("#e69f00", "P"))


def _beaten(point: Point, others: Sequence[Point]) -> bool:
    return any(
        other.upright >= point.upright
        and other.orbit >= point.orbit
        and (other.upright > point.upright or other.orbit > point.orbit)
        for other in others
    )


def _curve(results: BenchResults, data: str, line: str, column: str) -> list[tuple[float, float, float]]:
    """(at, mean, deviation) of the rows of one line."""
    found = []
    for row in results.rows:
        values = column_values(results, row.name, data, column) if row.line == line else []
        if values and row.at is not None:
            found.append((row.at, fmean(values), stdev(values) if len(values) > 1 else 0.0))
    return sorted(found)


def _scatter(axes: Axes, points: Sequence[Point]) -> None:
    front = sorted((p.upright, p.orbit) for p in points if p.best)
    axes.plot([x for x, _ in front], [y for _, y in front], color=INK, alpha=0.35, linewidth=1.0, zorder=1)
    for point in points:
        color, marker, _ = FAMILIES[point.family]
        if point.upright_spread or point.orbit_spread:
            axes.errorbar(point.upright, point.orbit, xerr=point.upright_spread, yerr=point.orbit_spread, color=color,
                          elinewidth=0.8, alpha=0.6, linestyle="none", zorder=2)  # fmt: skip
        size = 8.0 if point.family == "ours" else 5.5
        axes.plot(point.upright, point.orbit, marker, color=color, markersize=size, zorder=3)
    axes.margins(0.06)
    percent_axis(axes, "x")
    percent_axis(axes, "y")


def _labels(axes: Axes, side: Axes, points: Sequence[Point]) -> None:
    """The names in a column beside the panel, in the order of the points' heights, with a line to each."""
    side.set_axis_off()
    side.set_xlim(0, 1)
    side.set_ylim(0, 1)
    order = sorted(points, key=lambda p: p.orbit, reverse=True)
    for place, point in enumerate(order):
        height = 1 - (place + 0.5) / len(order)
        color, marker, _ = FAMILIES[point.family]
        side.plot(0.04, height, marker, color=color, markersize=5, clip_on=False)
        weight = "bold" if point.best else "normal"
        side.text(0.09, height, printable(point.title, 34), va="center", fontsize=8, fontweight=weight)
        axes.annotate(
            "", xy=(point.upright, point.orbit), xycoords=axes.transData, xytext=(0.02, height),
            textcoords=side.transAxes, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.5, "alpha": 0.45, "shrinkA": 0, "shrinkB": 3},
        )  # fmt: skip


def _handle(color: str, marker: str, name: str) -> Line2D:
    return Line2D([], [], color=color, marker=marker, linestyle="none", label=name)
