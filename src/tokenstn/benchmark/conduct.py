"""An experiment from beginning to end: choose on validation images, run the cells, collect what they found."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tokenstn.benchmark.cache import Cache
from tokenstn.benchmark.collect import Collector
from tokenstn.benchmark.experiment import Experiment
from tokenstn.benchmark.plan import CellPlan, Planner, in_order
from tokenstn.benchmark.schedule import Ledger, missing, run_all
from tokenstn.benchmark.task import Task
from tokenstn.benchmark.tuning import Tried, chosen_specs, judged, tries_of
from tokenstn.benchmark.workers import Outcome, Seat
from tokenstn.evaluation.bench_results import BenchResults, Tuning

Watch = Callable[[str, Sequence[Task]], Callable[[Outcome], None]]  # a phase and its tasks → told of each that ends


@dataclass(frozen=True)
class Outlook:
    """What is to be done: cells in all and those finished, tasks that are left, and the seconds of those timed before.

    Until the tries are judged, the cells are those of the first try of each row.
    """

    cells: int
    finished: int
    tries: int
    tries_finished: int
    left: int
    known_seconds: float
    unknown: int


@dataclass
class Conductor:
    """Runs an experiment over a cache.

    folders: where data and weights are looked for. places: one process works on each. workers: processes that read
    images, for each of these.
    """

    experiment: Experiment
    cache: Cache
    places: Sequence[Seat]
    folders: Sequence[str] = ()
    workers: int = 0
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self.planner = Planner(self.experiment, self.folders)
        self.planner.look_up()
        self.tried: list[Tried] = tries_of(self.experiment, self.planner)

    def outlook(self) -> Outlook:
        """Before anything is run."""
        tries = [plan for tried in self.tried for plan in tried.plans or ()]
        tunings = self._tunings()
        ready = all(one.score is not None for tuning in tunings for one in tuning.tries if len(tuning.tries) > 1)
        cells = self._cells(tunings if ready else [])
        tasks = in_order((*tries, *cells))
        left = missing(tasks, self.cache)
        timed = self._timed(tasks)
        known = [timed[task.group] for task in left if task.group in timed]
        return Outlook(
            len(cells),
            sum(self.cache.done(plan.cell) for plan in cells),
            len(tries),
            sum(self.cache.done(plan.cell) for plan in tries),
            len(left),
            sum(known) / max(1, min(len(self.places), len(left))),
            len(left) - len(known),
        )

    def run(self, watch: Watch, command: str = "") -> BenchResults:
        """Run what is missing, and collect everything."""
        start = time.monotonic()
        tries = in_order(plan for tried in self.tried for plan in tried.plans or ())
        self._run(tries, watch("tuning", missing(tries, self.cache)))
        tunings = self._tunings()
        cells = self._cells(tunings)
        tasks = in_order(cells)
        self._run(tasks, watch("cells", missing(tasks, self.cache)))
        # what was finished before, if its classifier had to be trained again and came out differently
        tasks = in_order(plan for plan in cells if self.cache.result(plan.cell) and not self.cache.done(plan.cell))
        if tasks:
            self._run(tasks, watch("cells", missing(tasks, self.cache)))
        collector = Collector(self.experiment, self.planner, self.cache, self.ledger)
        return collector.results(cells, tunings, command, time.monotonic() - start)

    def _run(self, tasks: Sequence[Task], report: Callable[[Outcome], None]) -> None:
        run_all(tasks, self.cache, self.places, self.ledger, workers=self.workers, report=report)

    def _tunings(self) -> list[Tuning]:
        return [judged(tried, self.experiment, self.cache, self.ledger) for tried in self.tried]

    def _cells(self, tunings: list[Tuning]) -> list[CellPlan]:
        """The final cells; with the first try of each row where the tries are not judged yet."""
        specs = (
            chosen_specs(self.tried, tunings) if tunings else {(one.row, one.data): one.specs[0] for one in self.tried}
        )
        return [
            self.planner.cell(row, spec, data, seed)
            for (row, data), spec in specs.items()
            if spec is not None
            for seed in self.experiment.seeds
        ]

    def _timed(self, tasks: Sequence[Task]) -> dict[str, float]:
        """Seconds of finished tasks by their group, the mean."""
        found: dict[str, list[float]] = {}
        for task in tasks:
            result = self.cache.result(task)
            if result is not None:
                found.setdefault(task.group, []).append(result["seconds"])
        return {group: sum(times) / len(times) for group, times in found.items()}
