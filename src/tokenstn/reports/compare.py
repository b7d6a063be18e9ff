"""Several runs side by side: one figure, and the table that ``tokenstn compare`` made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenstn.evaluation.results import Evaluation
from tokenstn.reports.plot import INK, Plot, answerers, blank, csv_text, legend_below, look, percent_axis, printable
from tokenstn.reports.write import write_plots
from tokenstn.system.files import write_text


@look()
def comparison_plot(names: Sequence[str], evaluations: Sequence[Evaluation]) -> Plot:
    """For each run accuracy over the orbit with its interval, and upright as an open marker; bare above rectified.

    Where a run has no labels, all are compared by their consistency.
    """
    if not names or len(names) != len(evaluations):
        raise ValueError(f"a comparison needs a name for each run, got {len(names)} names for {len(evaluations)} runs")
    labelled = all(who.scores.mean is not None for run in evaluations for who in answerers(run))
    figure = blank(1.0 + 0.58 * len(names))
    axes = figure.add_subplot()
    rows: list[tuple[str | float | None, ...]] = []
    seen: set[str] = set()
    for row, (name, evaluation) in enumerate(zip(names, evaluations, strict=True)):
        both = answerers(evaluation)
        for line, who in enumerate(both):
            height = row + (0.3 * line - 0.15) * (len(both) - 1)
            scores = who.scores
            value = scores.mean if labelled else scores.consistency
            assert value is not None
            upright, interval = (scores.upright, scores.mean_ci) if labelled else (None, None)
            low, high = (interval.low, interval.high) if interval else (None, None)
            rows.append((name, who.name, upright, value, low, high))
            if upright is not None:
                axes.plot([value, upright], [height, height], color=who.color, alpha=0.35, linewidth=1.2)
                axes.plot(upright, height, "o", color=who.color, fillstyle="none", markersize=5.5)
            if low is not None and high is not None:
                axes.plot([low, high], [height, height], color=who.color, linewidth=3.2, alpha=0.6)
            label = who.title if who.title not in seen else None
            seen.add(who.title)
            axes.plot(value, height, "o", color=who.color, markersize=6.5, label=label, linestyle="none")
    if labelled:
        axes.plot([], [], "o", color=INK, fillstyle="none", markersize=5.5, label="not moved", linestyle="none")
    axes.set_yticks(range(len(names)), [printable(name, 22) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    percent_axis(axes, "x")
    axes.set_xlabel("accuracy over the orbit" if labelled else "moved copies with the same answer")
    legend_below(figure, axes, columns=3)
    columns = ("run", "answerer", "upright", "orbit" if labelled else "consistency", "low", "high")
    caption = "Filled: over the orbit, with its 95 % interval. Open: images that were not moved." if labelled else ""
    return Plot("comparison", "Runs compared", figure, columns, tuple(rows), caption)


def write_comparison(rows: Sequence[Mapping[str, object]], plot: Plot, folder: str | Path) -> Path:
    """comparison.csv, one line for each row, and the figure in figures/; the path of the table."""
    columns = tuple(dict.fromkeys(key for row in rows for key in row))
    write_plots([plot], folder)
    table = csv_text(columns, ([row.get(key) for key in columns] for row in rows))
    return write_text(Path(folder) / "comparison.csv", table)
