"""What ``tokenstn bench`` says: what it understood, how far it is, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tokenstn.benchmark.cache import ERROR
from tokenstn.benchmark.conduct import Conductor, Outlook, Watch
from tokenstn.benchmark.task import Task
from tokenstn.benchmark.workers import Outcome, Seat
from tokenstn.evaluation.bench_results import BenchResults
from tokenstn.reports.bench_tables import BenchTable, bench_tables
from tokenstn.reports.numbers import THIN
from tokenstn.verbs.evaluation_steps import console
from tokenstn.verbs.speech import about, say, warn

__all__ = ["console", "say_what_was_found", "say_what_was_understood", "watching"]


def say_what_was_understood(out: Console, conductor: Conductor) -> None:
    """The first thing a bench prints: images, rows, orbits, cells, how many are finished, and a guess of the time."""
    experiment, planner = conductor.experiment, conductor.planner
    say(out, "experiment", f"{experiment.name}: {experiment.title}")
    for name in experiment.data:
        if name in planner.missing:
            continue
        images = planner.images(name)
        splits = ", ".join(f"{number:,} {split}" for split, number in images.counts.items())
        say(out, "images", f"{name}: {splits}, {images.classes:,} classes")
    warn(out, (f"{name} is left out: {reason}" for name, reason in planner.missing.items()))
    empty = [name for name, spec in experiment.methods.items() if spec.missing is not None]
    say(out, "rows", ", ".join(name for name in experiment.methods if name not in empty))
    if empty:
        say(out, "", f"left empty: {', '.join(empty)}")
    orbits = (f"{name} ({len(orbit.build()):,} elements)" for name, orbit in experiment.orbits.items())
    say(out, "orbits", ", ".join(orbits))
    outlook = conductor.outlook()
    seeds = f"{len(experiment.seeds)} seed{'s' if len(experiment.seeds) > 1 else ''}"
    say(out, "cells", f"{outlook.cells:,} with {seeds}, {outlook.finished:,} finished")
    if outlook.tries:
        budget = f"{experiment.tuning.tries} for each row"
        say(out, "tries", f"{outlook.tries:,} on validation images ({budget}), {outlook.tries_finished:,} finished")
    say(out, "device", _seats(conductor.places))
    if outlook.left:
        say(out, "to do", f"{outlook.left:,} tasks with their classifiers; {_time(outlook)}")


@contextmanager
def watching(out: Console, shown: bool) -> Iterator[Watch]:
    """A bar for each phase, and a line for every task that fails."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[last]}"),
    )  # fmt: skip
    with Progress(*columns, console=out, disable=not shown) as bar:

        def watch(phase: str, tasks: Sequence[Task]) -> Callable[[Outcome], None]:
            if not tasks:
                return lambda outcome: None
            number = bar.add_task(phase, total=len(tasks), last="")

            def told(outcome: Outcome) -> None:
                bar.update(number, advance=1, last=outcome.task.label[:48])
                if outcome.failed:
                    say(out, "failed", f"{outcome.task.label}: {outcome.reason}", "yellow")

            return told

        yield watch


def say_what_was_found(out: Console, results: BenchResults, conductor: Conductor) -> None:
    """The tables, what failed and why, and where the rest of it is."""
    for table in bench_tables(results):
        out.print()
        _show(out, table)
    failed = [cell for cell in results.cells if cell.state == "failed"]
    done = sum(cell.state == "done" for cell in results.cells)
    out.print()
    say(out, "done", f"{done:,} of {len(results.cells):,} cells")
    if results.quick:
        say(out, "", "quick: it shows that all of it runs, and says nothing about which method is better")
    if failed:
        say(
            out, "", f"{ERROR} in the folders under {conductor.cache.root} has the rest; start again to try these again"
        )
    collapsed = dict.fromkeys(f"{cell.row} ({', '.join(cell.collapsed)})" for cell in results.cells if cell.collapsed)
    if collapsed:
        warn(out, [f"collapsed in training, for a seed at least: {', '.join(collapsed)}"])


def _show(out: Console, table: BenchTable) -> None:
    """A table without folded lines, however narrow the terminal is."""
    shown = Table(box=None, padding=(0, 2, 0, 0), title=table.title, title_justify="left")
    for column in ("", *table.columns):
        shown.add_column(column, justify="right" if column else "left", no_wrap=True)
    for name, entries in zip(table.names, table.entries, strict=True):
        texts = (Text(entry.text.replace(THIN, " "), style="bold" if entry.bold else "") for entry in entries)
        shown.add_row(Text(name), *texts)
    needed = Console(width=1000).measure(shown).maximum
    Console(file=out.file, width=max(out.width, needed)).print(shown)
    warn(out, table.remarks)


def _seats(places: Sequence[Seat]) -> str:
    gpus = sorted({place.gpu for place in places if place.gpu is not None})
    each = len(places) // max(1, len(gpus))
    processes = f"{each} process{'es' if each > 1 else ''}"
    if gpus:
        return f"GPU {', '.join(map(str, gpus))}, {processes} on each"
    return f"CPU, {processes} with {places[0].threads} thread{'s' if places[0].threads > 1 else ''} each"


def _time(outlook: Outlook) -> str:
    if outlook.unknown == outlook.left:
        return "how long they take is not known yet"
    rest = f", and {outlook.unknown:,} more that were never timed" if outlook.unknown else ""
    return f"{about(outlook.known_seconds)} for those that were timed before{rest}"
