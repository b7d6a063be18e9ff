"""One figure with its data, and the look that all figures share.

Colours are safe for the colour-blind (vermillion, blue, green and purple differ in lightness too), and the three that
mean an outcome also come with their own marker. Text and axes are drawn in INK, which ``svg`` turns into the colour of
the page's text, so that a figure works on light and on dark.
"""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tokenstn.evaluation.results import Evaluation, Scores

INK = "#010203"  # a colour that nothing else has
BARE, RECTIFIED = "#d55e00", "#0072b2"
FIXED, BROKEN, UNCHANGED = "#009e73", "#aa3377", "#7f7f7f"
OUTCOMES = {"fixed": (FIXED, "^"), "broken": (BROKEN, "v"), "unchanged": (UNCHANGED, "o")}

WIDTH = 4.0  # inches: 384 CSS pixels, so that text stays readable when a phone shrinks the figure

_LOOK: dict[Any, Any] = {
    "text.parse_math": False,  # a class may be called "$x$"
    "path.simplify": False,  # every value stays where it is
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.14,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
}


@dataclass(frozen=True)
class Plot:
    """A figure, the table that it shows, and what a person is to see in it. ``name`` is that of its files."""

    name: str
    title: str
    figure: Figure
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int | None, ...], ...]
    caption: str = ""

    def csv(self) -> str:
        """The data as CSV."""
        return csv_text(self.columns, self.rows)


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Floats in full, so that they read back as they were; nothing for None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


@contextmanager
def look() -> Iterator[None]:
    """Draw and write inside it: ticks are made late, and take the look of the moment."""
    with matplotlib.rc_context(_LOOK):
        yield


def blank(height: float, width: float = WIDTH) -> Figure:
    """An empty figure of this many inches, without pyplot, which would keep it for ever."""
    return Figure(figsize=(width, height), layout="constrained")


@dataclass(frozen=True)
class Answerer:
    """Who answers, the name for people, and the colour."""

    name: str
    title: str
    color: str
    scores: Scores


def answerers(evaluation: Evaluation) -> list[Answerer]:
    """The bare classifier, and the rectified one where there is one."""
    both = [Answerer("bare", "bare classifier", BARE, evaluation.bare)]
    if evaluation.rectified is not None:
        both.append(Answerer("rectified", "rectified", RECTIFIED, evaluation.rectified))
    return both


def percent_axis(axes: Axes, which: str) -> None:
    """Write shares as percent on the x or the y axis."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))


def legend_below(figure: Figure, axes: Axes, columns: int = 2) -> None:
    """The legend under everything; one curve alone needs none."""
    handles = axes.get_legend_handles_labels()[0]
    if len(handles) > 1:
        figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def printable(name: str, longest: int | None = None) -> str:
    """A stranger's name without what no file format can hold, cut to ``longest`` characters.

    >>> printable("Smerinthus ocellata", 12)
    'Smerinthus …'
    """
    kept = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in ("Cc", "Cs") else c for c in name)
    return kept if longest is None or len(kept) <= longest else kept[: longest - 1] + "…"
