"""Put a report on disk, each file as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenstn.evaluation.results import Evaluation, Example
from tokenstn.reports.figures import figures
from tokenstn.reports.html import render
from tokenstn.reports.plot import Plot
from tokenstn.reports.svg import standalone_svg
from tokenstn.system.files import write_text


def write_report(evaluation: Evaluation, examples: Sequence[Example], folder: str | Path) -> Path:
    """Write report.html, figures/NAME.svg and figures/NAME.csv into the folder; the path of the page."""
    plots = figures(evaluation)
    page = render(evaluation, examples, plots)
    write_plots(plots, folder)
    return write_text(Path(folder) / "report.html", page)  # last: who sees the page finds its figures


def write_plots(plots: Iterable[Plot], folder: str | Path) -> None:
    """Each as figures/NAME.svg and figures/NAME.csv."""
    for plot in plots:
        write_text(Path(folder) / "figures" / f"{plot.name}.svg", standalone_svg(plot))
        write_text(Path(folder) / "figures" / f"{plot.name}.csv", plot.csv())
