"""Put what a benchmark found on disk: JSON, tables and figures, the latter made from the former alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
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


def require_free(folder: str | Path, name: str, sources: Mapping[str, str]) -> None:
    """Refuse to write over what is not a result of the same data. Two folders of images may end in the same name.

    Args:
        folder: where the results go.
        name: of the experiment, which the files are called by.
        sources: what each data set of the experiment is read from.
    """
    path = Path(folder) / f"{name}.json"
    instead = "choose another --out, or move it away"
    if not path.exists():
        there = [old for old in _rendered(path) if old.exists()]
        if there:
            raise FileExistsError(f"{there[0]} is there, and no {path.name} beside it says what it is of: {instead}")
        return
    try:
        before = {data.name: data.source for data in read_bench(path).data}
    except ValueError as error:
        raise FileExistsError(f"{error}, and would be written over: {instead}") from error
    shared = before.keys() & sources.keys()
    if not shared or any(Path(before[data]).resolve() != Path(sources[data]).resolve() for data in shared):
        raise FileExistsError(f"{path} is of other images ({', '.join(before.values())}): {instead}")


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
    texts = [markdown(results), latex(results)]
    texts += [None if plot is None else standalone_svg(plot) for plot in (pareto_plot(results), curve_plot(results))]
    return [write_text(place, text) for place, text in zip(_rendered(path), texts, strict=True) if text is not None]


def _rendered(path: Path) -> list[Path]:
    """What is made from NAME.json, where there is anything to draw."""
    return [path.with_name(f"{path.stem}{ending}") for ending in (".md", ".tex", "-pareto.svg", "-views.svg")]


def read_bench(path: str | Path) -> BenchResults:
    """The results in a file that ``write_bench`` wrote."""
    try:
        document = read_json(Path(path))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != BENCH_SCHEMA:
        raise ValueError(f"{path} holds no results of tokenstn bench ({BENCH_SCHEMA})")
    return restored(BenchResults, document, str(path))
