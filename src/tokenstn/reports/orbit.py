"""Figures over the orbit: accuracy, confidence and consistency at every angle and scale.

Angles are degrees clockwise from the image as it comes, which stands at the top of a polar plot.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import BoundaryNorm
from matplotlib.projections.polar import PolarAxes

from tokenstn.evaluation.results import Element, Evaluation, Scores
from tokenstn.reports.plot import Plot, answerers, blank, legend_below, look, percent_axis

QUANTITIES: dict[str, tuple[str, Callable[[Scores], tuple[float, ...] | None]]] = {
    "accuracy": ("Accuracy", lambda scores: scores.by_element),
    "consistency": ("Agreement with itself", lambda scores: scores.consistency_by_element),
    "confidence": ("Mean confidence", lambda scores: scores.confidence_by_element),
}
ORBIT_NAMES = (
    *(f"{quantity}_by_{over}" for quantity in QUANTITIES for over in ("angle", "scale", "angle_and_scale", "shift")),
    "consistency",
)
Key = TypeVar("Key", bound=Hashable)
FEWEST_ANGLES = 3  # two points make no curve


def angle(element: Element) -> float:
    return round(element.rotation_deg % 360, 3) % 360


def angles(elements: Sequence[Element]) -> list[float]:
    return sorted({angle(element) for element in elements})


def scales(elements: Sequence[Element]) -> list[float]:
    return sorted({round(element.scale, 6) for element in elements})


def orbit_plots(evaluation: Evaluation) -> list[Plot]:
    """What suits the group: polar plots, a curve over the scale, maps over two of its dimensions."""
    labelled = evaluation.bare.by_element is not None
    shown = ("accuracy",) if labelled else ("consistency", "confidence")
    plots: list[Plot] = []
    turns, sizes = angles(evaluation.elements), scales(evaluation.elements)
    shifts = {element.translation for element in evaluation.elements}
    for quantity in shown:
        if len(turns) >= FEWEST_ANGLES:
            plots.append(by_angle(evaluation, quantity))
        elif len(sizes) > 1:
            plots.append(by_scale(evaluation, quantity))
    if len(turns) >= FEWEST_ANGLES and len(sizes) > 1:
        plots.append(by_angle_and_scale(evaluation, shown[0]))
    if len(shifts) > 1:
        plots.append(by_shift(evaluation, shown[0]))
    if len(evaluation.elements) > 1:
        plots.append(consistency(evaluation))
    return plots


@look()
def by_angle(evaluation: Evaluation, quantity: str) -> Plot:
    """Polar, 0° up and clockwise; the mean over everything but the angle."""
    title, of = QUANTITIES[quantity]
    turns = angles(evaluation.elements)
    figure = blank(4.1)
    axes = figure.add_subplot(projection="polar")
    assert isinstance(axes, PolarAxes)
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    columns, table = ["rotation_deg"], [turns]
    for who in answerers(evaluation):
        means = _means([angle(element) for element in evaluation.elements], _values(of(who.scores)))
        around = [means[turn] for turn in turns]
        closed = [math.radians(turn) for turn in (*turns, turns[0])]
        axes.plot(closed, [*around, around[0]], color=who.color, marker="o", markersize=3.5, label=who.title)
        axes.fill(closed, [*around, around[0]], color=who.color, alpha=0.05)
        columns.append(who.name)
        table.append(around)
    axes.set_ylim(0, 1)
    axes.set_yticks([0.25, 0.5, 0.75, 1], ["25 %", "50 %", "75 %", "100 %"], fontsize=7.5, alpha=0.75)
    axes.set_rlabel_position(turns[1] / 2)  # between the points
    axes.set_xticks([math.radians(turn) for turn in range(0, 360, 45)])
    axes.spines["polar"].set_alpha(0.3)
    legend_below(figure, axes)
    sizes = len(scales(evaluation.elements))
    over = f" Each point is the mean over {sizes} scales." if sizes > 1 else ""
    what = {"consistency": "Copies that get the answer of the image that was not moved. "}.get(quantity, "")
    caption = f"{what}At 0° images are not turned; angles run clockwise.{over}"
    return Plot(f"{quantity}_by_angle", f"{title} by angle", figure, tuple(columns), _rows(table), caption)


@look()
def by_scale(evaluation: Evaluation, quantity: str) -> Plot:
    """A curve over the scale."""
    title, of = QUANTITIES[quantity]
    sizes = scales(evaluation.elements)
    figure = blank(3.0)
    axes = figure.add_subplot()
    columns, table = ["scale"], [sizes]
    for who in answerers(evaluation):
        means = _means([round(element.scale, 6) for element in evaluation.elements], _values(of(who.scores)))
        curve = [means[size] for size in sizes]
        axes.plot(sizes, curve, color=who.color, marker="o", label=who.title)
        columns.append(who.name)
        table.append(curve)
    axes.set(xlabel="size of the object, 1 as it comes", ylim=(0, 1.02))
    percent_axis(axes, "y")
    legend_below(figure, axes)
    return Plot(f"{quantity}_by_scale", f"{title} by scale", figure, tuple(columns), _rows(table))


def by_angle_and_scale(evaluation: Evaluation, quantity: str) -> Plot:
    """A map for each answerer."""
    return _map(
        evaluation,
        quantity,
        ("angle_and_scale", "angle and scale"),
        ("rotation_deg", "rotation, degrees clockwise", [angle(element) for element in evaluation.elements]),
        ("scale", "size", [round(element.scale, 6) for element in evaluation.elements]),
    )


def by_shift(evaluation: Evaluation, quantity: str) -> Plot:
    """A map for each answerer."""
    return _map(
        evaluation,
        quantity,
        ("shift", "shift"),
        ("shift_x", "shift to the right, half sides", [element.translation[0] for element in evaluation.elements]),
        ("shift_y", "shift down", [element.translation[1] for element in evaluation.elements]),
    )


@look()
def _map(
    evaluation: Evaluation,
    quantity: str,
    over: tuple[str, str],
    across: tuple[str, str, list[float]],
    down: tuple[str, str, list[float]],
) -> Plot:
    title, of = QUANTITIES[quantity]
    both = answerers(evaluation)
    places = list(zip(across[2], down[2], strict=True))
    xs, ys = sorted(set(across[2])), sorted(set(down[2]))
    grids = []
    for who in both:
        means = _means(places, _values(of(who.scores)))
        grids.append(np.array([[means.get((x, y), math.nan) for x in xs] for y in ys]))
    lowest = max(math.floor(10 * min(float(np.nanmin(grid)) for grid in grids) - 1e-9), 0) / 10
    # bands are told apart more surely than shades, and take less room
    levels = np.linspace(lowest, 1, round((1 - lowest) / (0.1 if lowest < 0.5 else 0.05)) + 1)
    figure = blank(0.95 + len(both) * min(2.1, 0.75 + 0.16 * len(ys)))
    panels = figure.subplots(len(both), 1, squeeze=False, sharex=True)[:, 0]
    mesh = None
    for panel, who, grid in zip(panels, both, grids, strict=True):
        panel.grid(visible=False)
        mesh = panel.pcolormesh(
            np.arange(len(xs) + 1), np.arange(len(ys) + 1), grid, cmap=colormaps["cividis"],
            norm=BoundaryNorm(levels, 256), edgecolors="face", linewidth=0.3,
        )  # fmt: skip
        panel.set_title(who.title, loc="left", fontweight="normal")
        panel.set_ylabel(down[1])
        panel.set_yticks(*_ticks(ys, most=5))
        if down[0] == "shift_y":  # y runs down, as in the image
            panel.invert_yaxis()
    panels[-1].set_xticks(*_ticks(xs, most=9))
    panels[-1].set_xlabel(across[1])
    assert mesh is not None
    bar = figure.colorbar(mesh, ax=list(panels), location="bottom", aspect=38, ticks=levels[::2], pad=0.02)
    bar.ax.set_xticklabels([f"{100 * level:.0f} %" for level in levels[::2]])
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    rows = tuple(
        (x, y, *(float(grid[row, column]) for grid in grids)) for row, y in enumerate(ys) for column, x in enumerate(xs)
    )
    columns = (across[0], down[0], *(who.name for who in both))
    caption = "Brighter is higher."
    return Plot(f"{quantity}_by_{over[0]}", f"{title} by {over[1]}", figure, columns, rows, caption)


@look()
def consistency(evaluation: Evaluation) -> Plot:
    """Quantiles over the images of the share of moved copies that get the same answer."""
    figure = blank(3.3)
    axes = figure.add_subplot()
    both = answerers(evaluation)
    shares = np.linspace(0, 1, len(both[0].scores.consistency_by_image)).round(6).tolist()
    for who in both:
        axes.plot(shares, who.scores.consistency_by_image, color=who.color, label=who.title)
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="share of the images", ylabel="copies with the same answer, at most")
    percent_axis(axes, "x")
    percent_axis(axes, "y")
    legend_below(figure, axes)
    rows = _rows([shares, *(list(who.scores.consistency_by_image) for who in both)])
    caption = (
        "For each share of the images, the least consistent first: how many of their moved copies get the same answer."
    )
    columns = ("share_of_images", *(who.name for who in both))
    return Plot("consistency", "How far images agree with themselves", figure, columns, rows, caption)


def _values(values: tuple[float, ...] | None) -> tuple[float, ...]:
    if values is None:
        raise ValueError("accuracy by element needs labels, and this evaluation has none; draw the consistency instead")
    return values


def _means(keys: Sequence[Key], values: Sequence[float]) -> dict[Key, float]:
    """The mean of the values that share a key."""
    found: defaultdict[Key, list[float]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        found[key].append(value)
    return {key: sum(some) / len(some) for key, some in found.items()}


def _ticks(values: list[float], most: int) -> tuple[list[float], list[str]]:
    """Middles and labels of at most this many cells."""
    step = math.ceil(len(values) / most)
    return [k + 0.5 for k in range(0, len(values), step)], [f"{value:.3g}" for value in values[::step]]


def _rows(columns: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(zip(*columns, strict=True))
