"""Put what a benchmark found on disk: JSON, tables and figures, the latter made from the former alone."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from tokenstn.evaluation.bench_results import BENCH_SCHEMA, BenchResults
from tokenstn.evaluation.metrics_json import plain, restored
from tokenstn.reports.bench_figures import curve_plot, pareto_plot
from tokenstn.reports.bench_pages import latex, markdown
from tokenstn.reports.svg import standalone_svg
from tokenstn.system.documents import read_json
from tokenstn.system.files import write_text


def write_bench(results: BenchResults, folder: str | Path) -> list[Path]:
    """NAME.json and all that is rendered from it."""
    path = Path(folder) / f"{results.experiment}.json"
    write_text(path, line_by_line(plain(results)))
    return [path, *render_bench(path)]


def line_by_line(document: dict[str, Any]) -> str:
    """JSON with a line for each part, and for each item of a list: a change of one cell is a change of one line.

    >>> print(line_by_line({"seeds": [0, 1], "cells": [{"row": "a"}, {"row": "b"}]}), end="")
    {
     "seeds": [0, 1],
     "cells": [
      {"row": "a"},
      {"row": "b"}
     ]
    }
    """
    write = partial(json.dumps, ensure_ascii=False, allow_nan=False)
    parts = []
    for name, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n" + ",\n".join(f"  {write(item)}" for item in value) + "\n ]"
        else:
            text = write(value)
        parts.append(f" {write(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def render_bench(path: str | Path) -> list[Path]:
    """NAME.md, NAME.tex, NAME-pareto.svg and, where rows name a number of views, NAME-views.svg, beside NAME.json."""
    path = Path(path)
    results = read_bench(path)
    files = {path.with_suffix(".md"): markdown(results), path.with_suffix(".tex"): latex(results)}
    for plot in (pareto_plot(results), curve_plot(results)):
        if plot is not None:
            files[path.with_name(f"{plot.name}.svg")] = standalone_svg(plot)
    return [write_text(place, text) for place, text in files.items()]


def read_bench(path: str | Path) -> BenchResults:
    """The results in a file that ``write_bench`` wrote."""
    try:
        document = read_json(Path(path))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != BENCH_SCHEMA:
        raise ValueError(f"{path} holds no results of tokenstn bench ({BENCH_SCHEMA})")
    return restored(BenchResults, document, str(path))
