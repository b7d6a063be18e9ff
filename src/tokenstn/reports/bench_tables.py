"""Tables of a benchmark from its results alone.

A share is a mean over the retrained seeds ± their standard deviation, in percent. A difference is in points against
the reference row, paired image by image, with its 95 % interval, and a star where that leaves out 0. The best of a
column is bold. Numbers of a paper stand in columns of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from tokenstn.evaluation.bench_results import UPRIGHT, BenchResults, DataIdentity, Row
from tokenstn.reports.bench_columns import column_values, how_trained
from tokenstn.reports.numbers import NONE, bare_points, big, duration

REPORTED = "reported, not comparable"
SHARES = ("worst", "consistency")
SMALLER_IS_BETTER = ("broken",)
TRAINED = "trained"
UNRANKED = (TRAINED, "views", "parameters", "flops", "ms", "ratio", "seconds")


@dataclass(frozen=True)
class Entry:
    """One place of a table; ``value`` is what bold is decided by."""

    text: str = NONE
    value: float | None = None
    bold: bool = False


@dataclass(frozen=True)
class BenchTable:
    """The rows of one data set. names: of the rows, for people. remarks: what is missing and why."""

    title: str
    columns: tuple[str, ...]
    names: tuple[str, ...]
    entries: tuple[tuple[Entry, ...], ...]
    remarks: tuple[str, ...] = ()


def bench_tables(results: BenchResults) -> list[BenchTable]:
    """A table for each data set; those that were not at hand share the last one, a row each."""
    measured = [bench_table(results, data.name) for data in results.data if data.missing is None]
    absent = [data for data in results.data if data.missing is not None]
    return [*measured, *([_not_at_hand(results, absent)] if absent else [])]


def default_columns(results: BenchResults) -> tuple[str, ...]:
    """Upright, every orbit, the paired difference over the first, what was fixed and broken, what was added and how."""
    first, orbits = results.orbits[0].name, (orbit.name for orbit in results.orbits)
    return (UPRIGHT, *orbits, f"{first}.difference", "fixed", "broken", "parameters", TRAINED)


def bench_table(results: BenchResults, data: str) -> BenchTable:
    """Every row on one data set."""
    identity = next(one for one in results.data if one.name == data)
    columns = results.columns or default_columns(results)
    reported = results.reported.get(data, {})
    lines = []
    for row in results.rows:
        measured = [_entry(results, row, data, column) for column in columns]
        lines.append(measured + [_reported(reported[column].get(row.name)) for column in reported])
    for place, column in enumerate(columns):
        _make_best_bold(lines, place, column)
    headings = [*map(_heading, columns), *(f"{_heading(column)} ({REPORTED})" for column in reported)]
    return BenchTable(
        identity.title,
        tuple(headings),
        tuple(row.title for row in results.rows),
        tuple(tuple(line) for line in lines),
        tuple(_remarks(results, data)),
    )


def _not_at_hand(results: BenchResults, absent: Sequence[DataIdentity]) -> BenchTable:
    """Of data that nothing was measured on, what a paper reports is all that there is to show."""
    titles = {row.name: row.title for row in results.rows}
    told = {
        data.name: {
            f"{titles.get(name, name)}, {_heading(column)} ({REPORTED})": number
            for column, numbers in results.reported.get(data.name, {}).items()
            for name, number in numbers.items()
        }
        for data in absent
    }
    columns = tuple(dict.fromkeys(column for numbers in told.values() for column in numbers))
    return BenchTable(
        "Not at hand",
        ("measured", *columns),
        tuple(data.title for data in absent),
        tuple((Entry(), *(_reported(told[data.name].get(column)) for column in columns)) for data in absent),
        tuple(f"{data.title} not run: {data.missing}" for data in absent),
    )


def _entry(results: BenchResults, row: Row, data: str, column: str) -> Entry:
    orbit, _, part = column.rpartition(".")
    if part == "difference":
        if row.name == results.reference:
            return Entry("reference") if results.cells_of(row.name, data) else Entry()
        if _right(results, row.name, data) == _right(results, results.reference, data) != {}:
            return Entry("the same")  # with these data, its settings come to those of the reference
        found = results.comparison(row.name, data, orbit)
        if found is None:
            return Entry()
        star = "*" if found.significant else ""
        low, high = bare_points(found.difference.low), bare_points(found.difference.high)
        return Entry(f"{bare_points(found.difference.value)} ({low} … {high}){star}")
    if column == TRAINED:
        return Entry("; ".join(dict.fromkeys(map(how_trained, results.cells_of(row.name, data)))) or NONE)
    values = column_values(results, row.name, data, column)
    if not values:
        return Entry()
    mean = fmean(values)
    if column in UNRANKED:
        written: dict[str, Callable[[float], str]] = {
            "views": lambda v: f"{v:.1f}", "parameters": big, "flops": big, "ms": lambda v: f"{v:.2f}",
            "ratio": lambda v: f"{v:.2f}×", "seconds": duration,
        }  # fmt: skip
        return Entry(written[column](mean), mean)
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    few = "" if len(values) == len(results.seeds) else f" ({len(values)} of {len(results.seeds)} seeds)"
    digits = 3 if column == "auc" or part == "auc" else 1
    if digits == 3:
        spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
        return Entry(f"{mean:.3f}{spread}{few}", round(mean, 3))
    return Entry(f"{100 * mean:.1f}{spread}{few}", round(mean, 3))


def _right(results: BenchResults, row: str, data: str) -> dict[tuple[int, str], object]:
    """What was right in each pose and of each class, by seed and orbit."""
    return {
        (cell.seed, orbit): (scores.mean, scores.by_element, scores.by_class)
        for cell in results.cells_of(row, data)
        for orbit, scores in cell.orbits.items()
    }


def _make_best_bold(lines: Sequence[list[Entry]], place: int, column: str) -> None:
    if column in UNRANKED or column.endswith(".difference"):
        return
    values = [line[place].value for line in lines]
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return
    best = min(known) if column in SMALLER_IS_BETTER else max(known)
    for line in lines:
        if line[place].value == best:
            line[place] = Entry(line[place].text, best, bold=True)


def _reported(number: float | None) -> Entry:
    return Entry() if number is None else Entry(f"{number:g}")


def _heading(column: str) -> str:
    named = {
        "auc": "AUC", "parameters": "added", "flops": "FLOPs", "ms": "ms", "ratio": "× bare", "seconds": "training",
    }  # fmt: skip
    orbit, _, part = column.rpartition(".")
    if part == "difference":
        return f"Δ {orbit}"
    if part == "auc" and orbit:
        return f"{orbit}, AUC"
    return f"{orbit}, {part}" if part in SHARES else named.get(column, column)


def _remarks(results: BenchResults, data: str) -> Iterable[str]:
    without: dict[str, list[str]] = {}
    for row in results.rows:
        if row.missing is not None:
            without.setdefault(row.missing, []).append(row.title)
    for reason, titles in without.items():
        yield f"{', '.join(titles)}: not run, {reason}"
    for row in results.rows:
        failed = [cell for cell in results.cells if (cell.row, cell.data, cell.state) == (row.name, data, "failed")]
        if failed:
            seeds = ", ".join(str(cell.seed) for cell in failed)
            yield f"{row.title}: failed for seed {seeds}: {failed[0].reason}"
