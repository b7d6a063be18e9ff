"""From the cache to ``results/NAME.json``: every cell, what it was compared with, and where the figures come from."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tokenstn.benchmark.cache import OF_WEIGHTS, Cache
from tokenstn.benchmark.experiment import Experiment, MethodSpec, OrbitSpec
from tokenstn.benchmark.plan import CellPlan, Planner
from tokenstn.benchmark.schedule import Ledger
from tokenstn.benchmark.significance import answers_of, compare_rows
from tokenstn.benchmark.tables import open_place
from tokenstn.evaluation.answers_file import KeptAnswers
from tokenstn.evaluation.bench_results import (
    BENCH_SCHEMA,
    UPRIGHT,
    BenchResults,
    Cell,
    ClassifierIdentity,
    Comparison,
    DataIdentity,
    OrbitIdentity,
    OrbitScores,
    Row,
    Tuning,
)
from tokenstn.evaluation.evaluate import versions
from tokenstn.evaluation.flips import flips
from tokenstn.evaluation.metrics_json import restored
from tokenstn.evaluation.results import Cost, Flips

FAMILIES = {
    "classifier": ("vanilla",),
    "search": ("tta", "its"),
    "pixels": ("stn", "head-stn", "pstn-gamma", "pstn-gauss", "polar", "logpolar", "diffeo-stn"),
    "canonical": ("canprior-g", "canprior-s"),
    "paper": ("tokenstn-gauss", "tokenstn-gamma", "tokenstn-point", "tokenstn-matrix", "tokenstn-pixels"),
    "ours": ("tokenstn",),
}
ANSWERS_OF = "vanilla"  # flips are counted against this row


@dataclass
class Collector:
    """Reads what the cells of an experiment left, and puts it together."""

    experiment: Experiment
    planner: Planner
    cache: Cache
    ledger: Ledger

    def results(
        self, plans: Sequence[CellPlan], tunings: Sequence[Tuning], command: str, wall_seconds: float
    ) -> BenchResults:
        """Everything, finished or not."""
        experiment = self.experiment
        kept = self._kept(plans)
        cells = [self._cell(plan, kept) for plan in plans]
        cells += self._absent({(plan.row, plan.data) for plan in plans})
        order = {row: place for place, row in enumerate(experiment.methods)}
        cells.sort(key=lambda cell: (list(experiment.data).index(cell.data), order[cell.row], cell.seed))
        tasks = {task.key: self.cache.result(task) for plan in plans for task in plan.tasks}
        return BenchResults(
            schema=BENCH_SCHEMA,
            experiment=experiment.name,
            title=experiment.title,
            quick=experiment.quick_run,
            command=command,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            wall_seconds=round(wall_seconds, 1),
            task_seconds=round(sum(found["seconds"] for found in tasks.values() if found), 1),
            versions=versions(),
            hardware=_hardware([found for found in tasks.values() if found]),
            seeds=experiment.seeds,
            tries=experiment.tuning.tries,
            reference=experiment.reference,
            rows=tuple(_row(name, spec) for name, spec in experiment.methods.items()),
            data=tuple(self._data(name) for name in experiment.data),
            orbits=tuple(_orbit(name, spec) for name, spec in experiment.orbits.items()),
            classifiers=self._classifiers(plans),
            cells=tuple(cells),
            comparisons=tuple(self._comparisons(kept)),
            tuning=tuple(tunings),
            columns=experiment.columns,
            reported=experiment.reported,
            reported_source=experiment.reported_source,
        )

    def _kept(self, plans: Sequence[CellPlan]) -> dict[tuple[str, str, str], dict[int, KeptAnswers]]:
        """Kept answers by (row, data, orbit) and seed."""
        found: dict[tuple[str, str, str], dict[int, KeptAnswers]] = {}
        for plan in plans:
            if not self.cache.done(plan.cell):
                continue
            for orbit in plan.cell.config["orbits"]:
                answers = answers_of(self.cache.folder(plan.cell), orbit)
                if answers is not None:
                    found.setdefault((plan.row, plan.data, orbit), {})[plan.seed] = answers
        return found

    def _cell(self, plan: CellPlan, kept: Mapping[tuple[str, str, str], Mapping[int, KeptAnswers]]) -> Cell:
        result = self.cache.result(plan.cell)
        if result is None:
            why = next((self.ledger.reason(task) for task in plan.tasks if self.ledger.reason(task)), "not finished")
            return Cell(plan.row, plan.data, plan.seed, "failed", why, plan.cell.key)
        trained = None if plan.training is None else self.cache.result(plan.training)
        classifier = self.cache.result(plan.classifier) or {}
        orbits = {name: restored(OrbitScores, scores, f"cell.{name}") for name, scores in result["orbits"].items()}
        orbits = {
            name: replace(scores, flips=self._flips(plan, name, kept)) if plan.row != ANSWERS_OF else scores
            for name, scores in orbits.items()
        }
        config = plan.cell.config
        settings = {name: config[name] for name in ("method", "options", "views", "sampling")}
        return Cell(
            row=plan.row,
            data=plan.data,
            seed=plan.seed,
            state="done",
            key=plan.cell.key,
            orbits=orbits,
            cost=restored(Cost, result["cost"], "cell.cost"),
            train_seconds=None if trained is None else trained["seconds"],
            evaluate_seconds=result["seconds"],
            device=result["device"],
            classifier=plan.spec.classifier,
            classifier_sha256=result.get(OF_WEIGHTS) or classifier.get("weights_sha256", ""),
            weights_sha256="" if trained is None else trained["weights_sha256"],
            settings={**settings, "recipe": None if plan.training is None else config["recipe"]},
            collapsed=tuple(() if trained is None else trained["collapsed"]),
            warnings=tuple(dict.fromkeys([*(trained or {}).get("warnings", ()), *result["warnings"]])),
        )

    def _flips(
        self, plan: CellPlan, orbit: str, kept: Mapping[tuple[str, str, str], Mapping[int, KeptAnswers]]
    ) -> Flips | None:
        """Against the vanilla classifier of the same data and seed."""
        ours = kept.get((plan.row, plan.data, orbit), {}).get(plan.seed)
        theirs = kept.get((ANSWERS_OF, plan.data, orbit), {}).get(plan.seed)
        if ours is None or theirs is None:
            return None
        table = open_place(plan.cell.place)
        judged = table.split(plan.cell.config["split"]).sort().values
        # the same images may have other places in the table than when the answers were kept, in the same order
        rows = judged if len(judged) == len(ours.rows) else ours.rows
        labels = None if table.multi_label else table.labels[rows][ours.labelled]
        mine, bare = (
            (one.bare if one.rectified is None else one.rectified).correct[:, one.labelled] for one in (ours, theirs)
        )
        return flips(bare, mine, labels, len(table.classes))

    def _absent(self, planned: set[tuple[str, str]]) -> list[Cell]:
        """Cells that could not even be planned: no data, no such method yet, or no try that worked."""
        found = []
        for data in self.experiment.data:
            for row, spec in self.experiment.methods.items():
                if (row, data) in planned:
                    continue
                why = spec.missing or self.planner.missing.get(data)
                state = "failed" if why is None else "absent"
                reason = why or "every try on validation images failed"
                found += [Cell(row, data, seed, state, reason) for seed in self.experiment.seeds]
        return found

    def _comparisons(self, kept: Mapping[tuple[str, str, str], Mapping[int, KeptAnswers]]) -> list[Comparison]:
        reference, found = self.experiment.reference, []
        plain = next((name for name, orbit in self.experiment.orbits.items() if orbit.plain), UPRIGHT)
        for (row, data, orbit), ours in kept.items():
            theirs = kept.get((reference, data, orbit), {})
            if row == reference:
                continue
            if orbit != UPRIGHT:
                found.append(compare_rows(row, reference, data, orbit, ours, theirs))
            if orbit == plain:
                found.append(compare_rows(row, reference, data, orbit, ours, theirs, upright=True))
        return [one for one in found if one is not None]

    def _data(self, name: str) -> DataIdentity:
        spec = self.experiment.data[name]
        if name in self.planner.missing:
            return DataIdentity(name, spec.title or name, spec.source, {}, {}, 0, self.planner.missing[name])
        images = self.planner.images(name)
        return DataIdentity(
            name, spec.title or name, spec.source, images.counts, images.checksums, images.classes, judged=spec.judged
        )

    def _classifiers(self, plans: Sequence[CellPlan]) -> tuple[ClassifierIdentity, ...]:
        found: dict[str, ClassifierIdentity] = {}
        for plan in plans:
            result = self.cache.result(plan.classifier)
            if result is None or plan.classifier.key in found:
                continue
            spec, start = self.experiment.classifier_of(plan.data), self.planner.start(plan.data)
            found[plan.classifier.key] = ClassifierIdentity(
                data=plan.data,
                training=plan.spec.classifier,
                seed=plan.seed,
                key=plan.classifier.key,
                start=" ".join(part for part in (spec.folder or spec.arch, spec.weights) if part),
                start_sha256=start["folder"] or start["weights"],
                weights_sha256=result["weights_sha256"],
                parameters=result["parameters"],
                seconds=result["seconds"],
            )
        return tuple(found.values())


def family_of_method(method: str) -> str:
    """The kind of a method."""
    return next((family for family, methods in FAMILIES.items() if method in methods), "paper")


def _row(name: str, spec: MethodSpec) -> Row:
    method, curve = spec.method or name, spec.curve
    return Row(
        name=name,
        title=spec.title or name,
        method=method,
        family=family_of_method(method),
        views=str(spec.views),
        missing=spec.missing,
        line=None if curve is None else curve.line,
        at=None if curve is None else curve.at,
    )


def _orbit(name: str, spec: OrbitSpec) -> OrbitIdentity:
    group = spec.build()
    angles = len(group.poses.rotation.unique())
    scales = tuple(round(scale, 6) for scale in group.poses.scale.unique().flip(0).tolist())
    return OrbitIdentity(name, group.name, len(group), angles, scales, group.first_shear, spec.mask)


def _hardware(results: Sequence[dict[str, Any]]) -> dict[str, str]:
    devices = dict.fromkeys(found["device"] for found in results)
    return {"devices": "; ".join(devices), "cores": str(os.cpu_count()), "machine": platform.machine()}
