"""Figures by class: accuracy, flips, and the entropy of the belief by what became of the answer.

Classes stand below each other, because their names are long and a phone is narrow. Of many classes a dozen is drawn;
the data hold all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.transforms import blended_transform_factory

from tokenstn.evaluation.results import ClassEntropy, ClassFlips, EntropyGroup, Evaluation
from tokenstn.reports.numbers import NONE
from tokenstn.reports.plot import (
    BROKEN,
    FIXED,
    INK,
    OUTCOMES,
    Plot,
    answerers,
    blank,
    legend_below,
    look,
    percent_axis,
    printable,
)

MOST_CLASSES = 12
GOLDEN = (math.sqrt(5) - 1) / 2


def class_plots(evaluation: Evaluation) -> list[Plot]:
    plots: list[Plot] = []
    if evaluation.bare.by_class is not None and len(evaluation.bare.by_class) == len(evaluation.classes):
        plots.append(accuracy_by_class(evaluation))
    if evaluation.flips is not None and evaluation.flips.by_class:
        plots.append(flips_by_class(evaluation))
    plots += [entropy_by_class(evaluation, primitive) for primitive, found in evaluation.entropy.items() if found]
    return plots


@look()
def accuracy_by_class(evaluation: Evaluation) -> Plot:
    """Over the orbit, bare and rectified; of many classes those that change most, or the worst of a bare classifier."""
    both = answerers(evaluation)
    values = [who.scores.by_class or () for who in both]

    def rank(k: int) -> float:
        found = [share[k] for share in values]
        if any(math.isnan(share) for share in found):
            return math.inf
        return -abs(found[-1] - found[0]) if len(found) > 1 else found[0]

    count = len(evaluation.classes)
    shown = _shown(count, sorted(range(count), key=rank))
    figure = blank(0.9 + 0.26 * len(shown))
    axes = figure.add_subplot()
    for place, k in enumerate(shown):
        ends = [share[k] for share in values]
        axes.plot([min(ends), max(ends)], [place, place], color=INK, alpha=0.25, linewidth=1.2)
    for who, share in zip(both, values, strict=True):
        axes.plot([share[k] for k in shown], range(len(shown)), "o", color=who.color, markersize=6, label=who.title)
    _name_rows(axes, [evaluation.classes[k] for k in shown])
    axes.set_xlim(-0.02, 1.02)
    percent_axis(axes, "x")
    legend_below(figure, axes)
    which = "that change most" if len(both) > 1 else "with the lowest accuracy"
    caption = "Over the orbit." + _of_many(len(shown), count, which)
    rows = tuple((name, *(share[k] for share in values)) for k, name in enumerate(evaluation.classes))
    columns = ("class", *(who.name for who in both))
    return Plot("accuracy_by_class", "Accuracy by class", figure, columns, rows, caption)


@look()
def flips_by_class(evaluation: Evaluation) -> Plot:
    """Bars to the right: fixed, of the wrong ones; to the left: broken, of the right ones."""
    assert evaluation.flips is not None
    flips = evaluation.flips.by_class
    names = row_names(evaluation, len(flips))
    shown = _shown(len(flips), most_flips(flips))
    figure = blank(0.9 + 0.28 * len(shown))
    axes = figure.add_subplot()
    places = range(len(shown))
    rates = [(rate(flips[k].broken, flips[k].base_right), rate(flips[k].fixed, flips[k].base_wrong)) for k in shown]
    broken, fixed = ([share or 0.0 for share in side] for side in zip(*rates, strict=True))
    axes.barh(places, [-share for share in broken], color=BROKEN, height=0.62, label="broken, of the right ones")
    axes.barh(places, fixed, color=FIXED, height=0.62, label="fixed, of the wrong ones")
    for place, (left, right) in zip(places, rates, strict=True):
        axes.text(-(left or 0.0) - 0.02, place, _whole(left), ha="right", va="center", fontsize=7.5)
        axes.text((right or 0.0) + 0.02, place, _whole(right), ha="left", va="center", fontsize=7.5)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlim(-max(broken) - 0.17, max(fixed) + 0.17)
    axes.set_xticks([])
    _name_rows(axes, [names[k] for k in shown])
    axes.spines["bottom"].set_visible(False)
    legend_below(figure, axes)
    rows = tuple((name, f.fixed, f.base_wrong, f.broken, f.base_right) for name, f in zip(names, flips, strict=True))
    columns = ("class", "fixed", "base_wrong", "broken", "base_right")
    caption = "Answers over the orbit." + _of_many(len(shown), len(flips), "with most flips")
    return Plot("flips_by_class", "Answers that rectification changed", figure, columns, rows, caption)


def _whole(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.0f} %"


@look()
def entropy_by_class(evaluation: Evaluation, primitive: str) -> Plot:
    """A strip of answers for each outcome, mean ± standard deviation on it, and the flip rates above the class."""
    found = evaluation.entropy[primitive]
    names = row_names(evaluation, len(found))
    flips = evaluation.flips.by_class if evaluation.flips is not None else ()
    flips = flips if len(flips) == len(found) else ()
    shown = _shown(
        len(found), most_flips(flips) if flips else sorted(range(len(found)), key=lambda k: -_flipped(found[k]))
    )
    figure = blank(0.95 + 0.62 * len(shown))
    axes = figure.add_subplot()
    over = blended_transform_factory(axes.transAxes, axes.transData)
    furthest = 0.1
    for place, k in enumerate(shown):
        top = place - 0.27
        axes.text(0, top, printable(names[k], 26), transform=over, va="center", fontsize=8.5, fontweight="bold")
        if flips:
            fixed, broken = _rates(flips[k])
            axes.text(0.77, top, fixed, transform=over, ha="right", va="center", fontsize=7.5, color=FIXED)
            axes.text(1, top, broken, transform=over, ha="right", va="center", fontsize=7.5, color=BROKEN)
        axes.axhline(place + 0.53, color=INK, alpha=0.12, linewidth=0.6)
        for strip, (outcome, (color, marker)) in enumerate(OUTCOMES.items()):
            group, height = getattr(found[k], outcome), place + 0.02 + 0.17 * strip
            values = [entropy for entropy, what in found[k].sample if what == outcome]
            _dots(axes, values, height, color)
            ends = _mean_and_spread(axes, group, height, color, marker)
            furthest = max(furthest, *values, ends) if values else max(furthest, ends)
    for outcome, (color, marker) in OUTCOMES.items():
        axes.plot([], [], color=color, marker=marker, label=outcome)
    axes.set_ylim(len(shown) - 0.45, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlim(-0.012 * furthest, min(1.04 * furthest, 1.02))
    axes.set_xlabel(f"entropy of the belief about the {primitive}: 0 certain, 1 no idea")
    legend_below(figure, axes, columns=3)
    caption = (
        "Every dot is an answer; markers with a bar are mean ± standard deviation."
        + (" Above each class: ▲ fixed of the wrong answers, ▼ broken of the right ones." if flips else "")
        + _of_many(len(shown), len(found), "with most flips")
    )
    columns = ("class", "outcome", "statistic", "value")
    rows = tuple(_entropy_rows(names, found, shown))
    return Plot(f"entropy_{primitive}", f"Entropy of the {primitive} by class", figure, columns, rows, caption)


def most_flips(flips: Sequence[ClassFlips]) -> list[int]:
    """Numbers of the classes, most changed answers first."""
    return sorted(range(len(flips)), key=lambda k: -(flips[k].fixed + flips[k].broken))


def rate(some: int, of: int) -> float | None:
    """A share, None of nothing."""
    return some / of if of else None


def row_names(evaluation: Evaluation, count: int) -> tuple[str, ...]:
    """What ``count`` rows by class are called; without known classes they have but a number."""
    if count == len(evaluation.classes):
        return evaluation.classes
    return ("all images",) if count == 1 else tuple(f"class {k}" for k in range(count))


def _shown(count: int, ranked: list[int]) -> list[int]:
    """All classes in their order, or the first dozen of the ranking."""
    return list(range(count)) if count <= MOST_CLASSES else ranked[:MOST_CLASSES]


def _of_many(shown: int, count: int, which: str) -> str:
    return f" Drawn are the {shown} of {count:,} classes {which}; the data hold all." if shown < count else ""


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [printable(name, 20) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")


def _rates(flips: ClassFlips) -> tuple[str, str]:
    """Fixed of the wrong ones, broken of the right ones, with the markers of the legend."""
    fixed, broken = rate(flips.fixed, flips.base_wrong), rate(flips.broken, flips.base_right)
    return (
        "" if fixed is None else f"▲ {100 * fixed:.0f} % fixed",
        "" if broken is None else f"▼ {100 * broken:.0f} % broken",
    )


def _flipped(entropy: ClassEntropy) -> int:
    return entropy.fixed.count + entropy.broken.count


def _dots(axes: Axes, values: list[float], height: float, color: str) -> None:
    """Each value as a dot of one single path: a tenth of the bytes of as many markers."""
    xs: list[float] = []
    ys: list[float] = []
    for k, value in enumerate(values):
        spread = height + 0.1 * ((k * GOLDEN) % 1 - 0.5)
        xs += [value, value + 1e-4, math.nan]
        ys += [spread, spread, math.nan]
    axes.plot(xs, ys, color=color, alpha=0.5, linewidth=2.4, solid_capstyle="round")


def _mean_and_spread(axes: Axes, group: EntropyGroup, height: float, color: str, marker: str) -> float:
    """Draw them; the right end of the bar."""
    if group.mean is None:
        return 0.0
    spread = group.std or 0.0
    axes.errorbar(
        group.mean, height, xerr=spread, color=color, marker=marker, markersize=6, markeredgecolor=INK,
        markeredgewidth=0.6, ecolor=INK, elinewidth=0.9, capsize=2.5, capthick=0.9,
    )  # fmt: skip
    return group.mean + spread


def _entropy_rows(
    names: Sequence[str], found: Sequence[ClassEntropy], shown: Sequence[int]
) -> Iterator[tuple[str, str, str, float | int | None]]:
    """Statistics of every class, single answers only of those that are drawn: a thousand classes have too many."""
    for k, (name, entropy) in enumerate(zip(names, found, strict=True)):
        for outcome in OUTCOMES:
            group: EntropyGroup = getattr(entropy, outcome)
            yield name, outcome, "count", group.count
            yield name, outcome, "mean", group.mean
            yield name, outcome, "std", group.std
        for value, outcome in entropy.sample if k in shown else ():
            yield name, outcome, "answer", value
