"""``tokenstn compare``: runs side by side, with intervals for their differences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from tokenstn.evaluation.answers_file import KeptAnswers
    from tokenstn.evaluation.comparison import Compared, Difference
    from tokenstn.evaluation.results import Evaluation


@dataclass(frozen=True)
class CompareResult:
    """rows: one for each run and answerer, as in comparison.csv. out: where that is, if it was asked for."""

    rows: list[dict[str, Any]]
    out: Path | None


def compare(runs: list[str], out: str | None = None, overwrite: bool = False) -> CompareResult:
    """Compare runs, or evaluations, of the same images: a table, and differences to the first with 95 % intervals.

    Example: tokenstn compare runs/a/evaluation/photos-test-rotation16 runs/b/evaluation/photos-test-rotation16

    Args:
        runs: two or more folders that tokenstn evaluate or tokenstn train wrote.
        out: a folder for comparison.csv and the figure; nothing is written when left out.
        overwrite: replace a comparison that is there.
    """
    from tokenstn.evaluation import comparison
    from tokenstn.reports import comparison_plot, write_comparison
    from tokenstn.verbs import evaluation_steps as steps
    from tokenstn.verbs.speech import say, warn

    names = [str(run) for run in runs]
    if len(names) < 2:
        raise ValueError(f"a comparison needs two runs or more, got {len(names)}")
    if len(set(names)) < len(names):
        raise ValueError("a run is named twice: compare it with another one")
    if out is not None and (Path(out) / "comparison.csv").exists() and not overwrite:
        raise FileExistsError(f"{out} holds a comparison: choose another --out, or replace it, --overwrite=true")
    evaluations = [read_evaluation(name) for name in names]
    comparison.require_comparable(names, evaluations)
    console = steps.console()
    kept, remarks = zip(*(_answers(name, run) for name, run in zip(names, evaluations, strict=True)), strict=True)
    compared = [
        who
        for name, evaluation, answers in zip(names, evaluations, kept, strict=True)
        for who in comparison.answerers_of(name, evaluation, answers)
    ]
    reference = [who for who in compared if who.run == names[0]][-1]
    rows = []
    for who in compared:
        itself = who is reference
        orbit = None if itself else comparison.over_the_orbit(who, reference)
        upright = None if itself else comparison.upright(who, reference)
        rows.append(_row(who, orbit, upright))
    first = evaluations[0]
    elements = f"{first.group}: {len(first.elements):,} elements"
    where = "" if first.split == "all" else f" of the {first.split} split"
    say(console, "images", f"{first.data}: {first.images:,} images{where}; {elements}")
    labelled = first.bare.mean is not None
    shown = _without_repeats(rows)
    console.print(_scores_table(shown, labelled))
    console.print()
    say(console, "difference", f"to {reference.run}, {reference.answerer}, in points, with 95 % intervals")
    console.print(_differences_table(shown, labelled))
    if len(shown) < len(rows):
        say(console, "bare", "a bare classifier that scores the same as the first run's is shown once")
    warn(console, [remark for remark in remarks if remark])
    if out is None:
        return CompareResult(rows, None)
    say(console, "written", str(write_comparison(rows, comparison_plot(short_names(names), evaluations), out)))
    return CompareResult(rows, Path(out))


def read_evaluation(folder: str | Path) -> Evaluation:
    """The evaluation in a folder, of ``tokenstn evaluate`` or at the end of ``tokenstn train``."""
    from tokenstn.evaluation.metrics_json import from_json
    from tokenstn.system.documents import read_json

    path = Path(folder) / "metrics.json"
    if not path.is_file():
        why = "there is no such folder" if not Path(folder).is_dir() else "it has no metrics.json"
        raise ValueError(f"{folder} is not a run or an evaluation: {why}")
    try:
        document = read_json(path)
        return from_json(document.get("evaluation", document) if isinstance(document, dict) else document)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def short_names(paths: list[str]) -> list[str]:
    """Paths without the folders that all begin and end with.

    >>> short_names(["runs/a/evaluation/moths", "runs/b/evaluation/moths"])
    ['a', 'b']
    >>> short_names(["runs/a", "runs/a/evaluation/moths"])
    ['a', 'a/evaluation/moths']
    """
    parts = [Path(path).parts for path in paths]
    while all(len(part) > 1 for part in parts) and len({part[0] for part in parts}) == 1:
        parts = [part[1:] for part in parts]
    while all(len(part) > 1 for part in parts) and len({part[-1] for part in parts}) == 1:
        parts = [part[:-1] for part in parts]
    return ["/".join(part) for part in parts]


def _answers(name: str, evaluation: Evaluation) -> tuple[KeptAnswers | None, str]:
    """The kept answers of a run, and a sentence where there are none to be used."""
    from tokenstn.evaluation.answers_file import ANSWERS, load_answers

    kept = load_answers(name)
    if kept is None:
        return None, (
            f"{name} has no {ANSWERS}, which a paired interval needs: its intervals take the images of both sides as "
            "different ones and are too wide; tokenstn evaluate writes it"
        )
    if not kept.belongs_to(evaluation):
        return None, f"{ANSWERS} in {name} does not belong to its metrics.json and is not used"
    return kept, ""


def _row(who: Compared, orbit: Difference | None, upright: Difference | None) -> dict[str, Any]:
    scores = who.scores
    ends = {} if scores.mean_ci is None else {"orbit_low": scores.mean_ci.low, "orbit_high": scores.mean_ci.high}
    row: dict[str, Any] = {
        "run": who.run, "answerer": who.answerer, "upright": scores.upright, "orbit": scores.mean, **ends,
        "worst": scores.worst, "consistency": scores.consistency,
    }  # fmt: skip
    for name, found in (("orbit", orbit), ("upright", upright)):
        row[f"{name}_difference"] = None if found is None else found.value
        row[f"{name}_difference_low"] = None if found is None or found.interval is None else found.interval.low
        row[f"{name}_difference_high"] = None if found is None or found.interval is None else found.interval.high
        row[f"{name}_difference_paired"] = None if found is None or found.interval is None else found.paired
    return row


def _without_repeats(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs often share their bare classifier: it is shown once."""
    scores = ("answerer", "upright", "orbit", "worst", "consistency")
    first = [rows[0][name] for name in scores]
    return [row for row in rows if row is rows[0] or [row[name] for name in scores] != first]


def _scores_table(rows: list[dict[str, Any]], labelled: bool) -> Table:
    names = ("upright", "orbit", "worst", "consistency") if labelled else ("consistency",)
    titles = {"orbit": "over the group", "consistency": "same answer"}
    cells = [[_share(row[name]) for name in names] for row in rows]
    return _table(rows, [titles.get(name, name) for name in names], cells)


def _differences_table(rows: list[dict[str, Any]], labelled: bool) -> Table:
    names = ("upright", "orbit") if labelled else ("orbit",)
    titles = {"upright": "upright", "orbit": "over the group" if labelled else "same answer"}
    others = [row for row in rows if row["orbit_difference"] is not None]
    return _table(others, [titles[name] for name in names], [[_points(row, name) for name in names] for row in others])


def _table(rows: list[dict[str, Any]], titles: list[str], cells: list[list[str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column("run", overflow="fold")
    for title in ("", *titles):
        shown.add_column(title, no_wrap=True)
    for row, line in zip(rows, cells, strict=True):
        shown.add_row(Text(row["run"]), row["answerer"], *line)  # Text: brackets in a name are no markup
    return shown


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _points(row: dict[str, Any], name: str) -> str:
    """A difference in points with the ends of its interval."""
    value, low, high = (row[f"{name}_difference{end}"] for end in ("", "_low", "_high"))
    if value is None:
        return "–"
    ends = "" if low is None else f" ({100 * low:+.1f} … {100 * high:+.1f})"
    return f"{100 * value:+.1f}{ends}".replace("-", "−")
