"""The folder of an evaluation: where it goes, whether it is free, and what is written there, ``metrics.json`` last."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tokenstn.evaluation.answers_file import ANSWERS, save_answers
from tokenstn.evaluation.evaluate import Examination
from tokenstn.evaluation.metrics_json import to_json
from tokenstn.evaluation.results import SCHEMA
from tokenstn.geometry import Group
from tokenstn.reports import write_report
from tokenstn.system.documents import read_json
from tokenstn.system.files import remove_unfinished, require_writable, was_cut_off, write_text, written_together
from tokenstn.verbs.models import IMAGES, ModelPlace

METRICS, REPORT, FIGURES = "metrics.json", "report.html", "figures"
_FIGURE = re.compile(r'download="(\w+)\.csv"')  # how a report names each of its figures


def folder_for(out: str | None, place: ModelPlace, data: str, split: str | None, group: Group) -> Path:
    """As asked for; else inside the run folder, by what is evaluated; else runs/evaluate."""
    if out is not None:
        return Path(out)
    if place.run is None:
        return Path("runs/evaluate")
    return place.run / "evaluation" / _plain_name(f"{Path(data).name}-{split or 'all'}-{group.name}{len(group)}")


def require_free(folder: Path, overwrite: bool) -> None:
    """Refuse a folder with results in it, unless they may go; a training run, and what is of others, is never
    overwritten.
    """
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file, and results go into a folder: choose another --out")
    require_writable(folder)
    if (folder / IMAGES).exists():
        raise FileExistsError(f"{folder} holds a training run: choose another --out")
    if (folder / FIGURES).is_file():
        raise FileExistsError(
            f"{folder / FIGURES} is a file, and figures go into a folder of that name: choose another --out"
        )
    metrics = folder / METRICS
    if not metrics.exists():
        there = [name for name in (REPORT, ANSWERS) if (folder / name).exists()]
        there += [FIGURES] * any((folder / FIGURES).glob("[!.]*"))
        if there and not was_cut_off(folder):
            raise FileExistsError(
                f"{folder} holds {' and '.join(there)} already, of which no {METRICS} says that it is of an "
                "evaluation, and which would be written over: choose another --out"
            )
        return
    if not _is_evaluation(metrics):
        raise FileExistsError(f"{folder} holds something else than an evaluation: choose another --out")
    if not overwrite:
        raise FileExistsError(f"{folder} holds an evaluation: choose another --out, or replace it, --overwrite=true")


def write_evaluation(found: Examination, folder: Path) -> Path:
    """report.html, figures/, answers.npz and, last of all, metrics.json; the path of the report."""
    old = _figures_in(folder)  # of another group, they would stay
    remove_unfinished(folder, deep=False)
    document = json.dumps(to_json(found.evaluation), indent=2, allow_nan=False)
    with written_together(folder, last=METRICS, instead_of=old) as place:
        page = write_report(found.evaluation, found.examples, place)
        save_answers(found.answers, place)
        write_text(place / METRICS, f"{document}\n")
    return folder / page.relative_to(place)


def _figures_in(folder: Path) -> list[Path]:
    """The files of the figures that the report in a folder names."""
    report = folder / REPORT
    names = _FIGURE.findall(report.read_text(encoding="utf-8", errors="replace")) if report.is_file() else []
    return [folder / FIGURES / f"{name}.{kind}" for name in names for kind in ("svg", "csv")]


def _is_evaluation(metrics: Path) -> bool:
    try:
        document = read_json(metrics)
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("schema") == SCHEMA


def _plain_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "evaluation"
