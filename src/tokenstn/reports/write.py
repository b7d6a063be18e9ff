"""Put a report on disk: each file is written beside its place and then moved there, so none is ever seen half."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenstn.evaluation.results import Evaluation, Example
from tokenstn.reports.figures import figures
from tokenstn.reports.html import render
from tokenstn.reports.plot import Plot
from tokenstn.reports.svg import standalone_svg


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


def write_text(path: Path, text: str) -> Path:
    """Replace the file as a whole, or leave it as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # file names may hold bytes that are no text: they become question marks
        beside.write_bytes(text.encode("utf-8", errors="replace"))
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path
