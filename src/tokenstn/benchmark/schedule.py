"""Run the tasks that are not finished, on all seats; a failed one is remembered, and what needs it is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tokenstn.benchmark.cache import Cache
from tokenstn.benchmark.task import Task
from tokenstn.benchmark.workers import Outcome, Seat, Worker, finished
from tokenstn.system.files import NotWrittenError

Report = Callable[[Outcome], None]


@dataclass
class Ledger:
    """What happened in this start: key → reason of failed tasks, and the seconds of those that were run."""

    failures: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def reason(self, task: Task) -> str:
        """Why a task has no result; empty where it did not fail."""
        return self.failures.get(task.key, "")


def missing(tasks: Sequence[Task], cache: Cache) -> list[Task]:
    """The tasks that have no result yet, in their order; not those that only finished ones would need."""
    needed = {task.key for task in tasks} - {need for task in tasks for need in task.needs}  # what is asked for
    left = []
    for task in reversed(tasks):
        if task.key in needed and not cache.done(task):
            needed.update(task.needs)
            left.append(task)
    return left[::-1]


def run_all(
    tasks: Sequence[Task], cache: Cache, places: Sequence[Seat], ledger: Ledger, *, workers: int = 0, report: Report
) -> None:
    """Run every task that is not finished, each after those that it needs; failures go into the ledger.

    Args:
        places: one process runs on each.
        workers: processes that read images, for each of these.
        report: is told of every task that ends.
    """
    waiting = missing(tasks, cache)
    unfinished = {task.key for task in waiting}
    crew: list[Worker] = []
    try:
        while waiting or any(worker.task is not None for worker in crew):
            for task in [task for task in waiting if any(need in ledger.failures for need in task.needs)]:
                waiting.remove(task)
                need = next(need for need in task.needs if need in ledger.failures)
                _close(Outcome(task, 0.0, f"what it needs failed: {ledger.failures[need]}"), ledger, unfinished, report)
            ready = [task for task in waiting if not unfinished.intersection(task.needs)]
            crew = [_living(worker, places[place], cache, workers) for place, worker in enumerate(crew)]
            idle = [worker for worker in crew if worker.task is None]
            while ready and (idle or len(crew) < len(places)):
                if not idle:
                    crew.append(Worker(places[len(crew)], str(cache.root), workers))
                    idle = [crew[-1]]
                task = ready.pop(0)
                waiting.remove(task)
                idle.pop().give(task)
            if not any(worker.task is not None for worker in crew):
                continue
            for worker in list(finished(crew)):
                outcome = worker.take()
                if outcome.hopeless:
                    raise NotWrittenError(f"{outcome.task.label}: {outcome.reason}")
                if outcome.failed and not worker.alive:  # it could not write this itself
                    cache.fail(outcome.task, outcome.trace)
                _close(outcome, ledger, unfinished, report)
    finally:
        for worker in crew:
            worker.stop()


def _living(worker: Worker, seat: Seat, cache: Cache, workers: int) -> Worker:
    """The worker, or a new one in its place where it has died without a task."""
    if worker.task is not None or worker.alive:
        return worker
    worker.stop()
    return Worker(seat, str(cache.root), workers)


def _close(outcome: Outcome, ledger: Ledger, unfinished: set[str], report: Report) -> None:
    unfinished.discard(outcome.task.key)
    if outcome.failed:
        ledger.failures[outcome.task.key] = outcome.reason
    else:
        ledger.seconds[outcome.task.key] = outcome.seconds
    report(outcome)
