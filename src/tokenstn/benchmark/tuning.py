"""Tuning: every row gets the same number of tries on validation images, and its best one is used for the cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenstn.benchmark.cache import Cache
from tokenstn.benchmark.experiment import Experiment, MethodSpec
from tokenstn.benchmark.plan import CellPlan, Planner
from tokenstn.benchmark.schedule import Ledger
from tokenstn.evaluation.bench_results import Try, Tuning


@dataclass(frozen=True)
class Tried:
    """The tries of a row on a data set: the changes, and the cell that judges them; None where there is but one."""

    row: str
    data: str
    changes: tuple[dict[str, Any], ...]
    specs: tuple[MethodSpec, ...]
    plans: tuple[CellPlan, ...] | None


def tries_of(experiment: Experiment, planner: Planner) -> list[Tried]:
    """All tries of an experiment, for the data sets that are at hand."""
    found = []
    for data in experiment.data:
        if data in planner.missing:
            continue
        for row, spec in experiment.methods.items():
            if spec.missing is not None:
                continue
            changes = spec.tune[: experiment.tuning.tries] or ({},)
            specs = tuple(spec.changed(change, f"methods.{row}.tune") for change in changes)
            plans = None
            if len(specs) > 1:
                seed = experiment.tuning.seed
                plans = tuple(planner.cell(row, one, data, seed, "choosing") for one in specs)
            found.append(Tried(row, data, changes, specs, plans))
    return found


def judged(tried: Tried, experiment: Experiment, cache: Cache, ledger: Ledger) -> Tuning:
    """What the tries gave, and which is the best: the highest mean accuracy over the orbit, the first of equal ones."""
    orbit = experiment.tuning.orbit or experiment.first_orbit
    if tried.plans is None:
        only = Try(tried.changes[0], None, "", "the only one")
        return Tuning(tried.row, tried.data, orbit, experiment.tuning.seed, (only,), 0)
    found = []
    for changes, plan in zip(tried.changes, tried.plans, strict=True):
        result = cache.result(plan.cell)
        score = None if result is None else result["orbits"][orbit]["mean"]
        found.append(Try(changes, score, plan.cell.key, "" if score is not None else _why(plan, ledger)))
    scored = [place for place, one in enumerate(found) if one.score is not None]
    best = max(scored, key=lambda place: (found[place].score, -place)) if scored else None
    return Tuning(tried.row, tried.data, orbit, experiment.tuning.seed, tuple(found), best)


def chosen_specs(tried: list[Tried], tunings: list[Tuning]) -> Mapping[tuple[str, str], MethodSpec | None]:
    """The settings of each (row, data) after tuning; None where every try failed."""
    return {
        (one.row, one.data): None if tuning.chosen is None else one.specs[tuning.chosen]
        for one, tuning in zip(tried, tunings, strict=True)
    }


def _why(plan: CellPlan, ledger: Ledger) -> str:
    return next((ledger.reason(task) for task in reversed(plan.tasks) if ledger.reason(task)), "not finished")
