"""From an experiment to its tasks: what is to be computed, in which order, and what depends on what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tokenstn.baselines.registry import learns, options_of_method
from tokenstn.benchmark.experiment import ClassifierSpec, Experiment, MethodSpec, OrbitSpec
from tokenstn.benchmark.models import READS_AS_USUAL, file_checksum
from tokenstn.benchmark.settings import classifier_recipe, method_recipe, plain_options, plain_recipe
from tokenstn.benchmark.tables import Images, Phase, describe, find_file
from tokenstn.benchmark.task import Task, versions_that_matter
from tokenstn.evaluation.bench_results import UPRIGHT
from tokenstn.models import AutoViews, reading
from tokenstn.models.folder import CONFIG
from tokenstn.system.documents import read_json
from tokenstn.training import freezing

OF_THE_CALL = ("auto",)  # options that a training does not depend on: rows that differ in them share it


@dataclass(frozen=True)
class CellPlan:
    """The tasks of one cell; the last one judges it."""

    row: str
    data: str
    seed: int
    spec: MethodSpec
    classifier: Task
    training: Task | None
    cell: Task

    @property
    def tasks(self) -> tuple[Task, ...]:
        """In their order."""
        return (self.classifier, *((self.training,) if self.training is not None else ()), self.cell)


@dataclass
class Planner:
    """Makes tasks; data sets and weights are looked up once.

    folders: where files are looked for. ``missing`` has the reason for each data set that is not at hand.
    """

    experiment: Experiment
    folders: Sequence[str] = ()
    missing: dict[str, str] = field(default_factory=dict)
    _images: dict[tuple[str, Phase], Images] = field(default_factory=dict)
    _starts: dict[str, tuple[dict[str, Any], dict[str, str]]] = field(default_factory=dict)

    def look_up(self) -> None:
        """Open every data set; those that cannot be opened, or whose weights are not there, are ``missing``."""
        phases: tuple[Phase, ...] = ("choosing", "final") if self.experiment.tuning.tries > 1 else ("final",)
        for name, spec in self.experiment.data.items():
            try:
                self._starts[name] = _start(self.experiment.classifier_of(name), self.folders)
                classes = _classes_of(self._starts[name][1])
                for phase in phases:
                    self._images[name, phase] = describe(spec, phase, self.folders, classes)
            except (ValueError, OSError) as error:
                self.missing[name] = str(error).partition("; a data set is one of")[0].partition("\n")[0]

    def images(self, data: str, phase: Phase = "final") -> Images:
        """What is known of a data set."""
        return self._images[data, phase]

    def start(self, data: str) -> dict[str, Any]:
        """The classifier of a data set before its training, as JSON."""
        return self._starts[data][0]

    def cell(self, row: str, spec: MethodSpec, data: str, seed: int, phase: Phase = "final") -> CellPlan:
        """All tasks of a cell."""
        classifier = self.classifier(data, spec.classifier, seed, phase)
        method, images = spec.method or row, self.images(data, phase)
        label = f"{row} · {data} · seed {seed}" + (" · validation" if phase == "choosing" else "")
        recipe = plain_recipe(method_recipe(method, spec.recipe))
        shared = {
            **self._common(data, images),
            "base": classifier.key,
            "classifier": self._starts[data][0],
            "method": method,
            "options": plain_options(method, spec.options),
            "recipe": recipe,
            "upright": images.upright,
        }
        # the first rule has no number: cells were kept before it had; who says what to read follows no rule
        if method in READS_AS_USUAL and reading.RULE > 1 and not shared["options"].keys() >= reading.SAID:
            shared["reading"] = reading.RULE
        if method.startswith("tokenstn") and recipe["classifier"] == "joint":
            shared["freezing"] = freezing.RULE
        common: dict[str, Any] = {"place": images.place, "files": self._starts[data][1]}
        training = None
        if learns(method):
            moves = self.experiment.augmentation if spec.augmentation is None else spec.augmentation
            learned = {name: value for name, value in shared["options"].items() if name not in OF_THE_CALL}
            config = {**shared, "options": learned, "kind": "training", "seed": seed, "augmentation": list(moves)}
            training = Task(
                "training", config, label=f"train {label}", group=f"training/{row}", needs=(classifier.key,), **common
            )
        else:
            shared["recipe"] = {**recipe, "classifier": "frozen"}
        config = {
            **shared,
            "kind": "cell",
            "trained": None if training is None else training.key,
            "judged": images.checksums[images.judged],
            "split": images.judged,
            "orbits": {name: asdict(orbit) for name, orbit in self._orbits(phase).items()},
            "views": spec.views,
            "sampling": spec.sampling,
            "evaluation": plain_evaluation(self.experiment, row, phase),
        }
        if images.groups:  # intervals are clustered by them
            config["groups"] = images.groups
        if spec.views == "auto" and "auto" in options_of_method(method):
            given = spec.options.get("auto", {})
            config["auto"] = asdict(AutoViews(**given))  # all of it, so that a default that changes changes the hash
            if "sure" not in given and "val" in images.counts and images.judged != "val":
                # images that nothing was trained on, and nothing is judged by
                config["enough"] = {"split": "val", "orbit": self.experiment.first_orbit}
        need = classifier.key if training is None else training.key
        cell = Task("cell", config, label=f"judge {label}", group=f"cell/{row}", needs=(need,), **common)
        return CellPlan(row, data, seed, spec, classifier, training, cell)

    def classifier(self, data: str, training: str, seed: int, phase: Phase = "final") -> Task:
        """The task that makes a trained classifier."""
        spec, images = self.experiment.classifier_of(data), self.images(data, phase)
        wanted, (start, files) = spec.trainings[training], self._starts[data]
        config = {
            **self._common(data, images),
            "kind": "classifier",
            "classifier": start,
            "training": {
                "recipe": None if wanted.as_is else plain_recipe(classifier_recipe(wanted.recipe)),
                "augmentation": None if wanted.augmentation is None else list(wanted.augmentation),
            },
            "seed": 0 if wanted.as_is else seed,
        }
        kept = " · validation" if phase == "choosing" else ""
        label = f"train the {training} classifier · {data} · seed {seed}{kept}"
        return Task("classifier", config, images.place, label, f"classifier/{training}", files=files)

    def _common(self, data: str, images: Images) -> dict[str, Any]:
        return {
            "versions": versions_that_matter(),
            "images": images.identity,
            "precision": self.experiment.precision,
            "matmul": self.experiment.matmul,
        }

    def _orbits(self, phase: Phase) -> dict[str, OrbitSpec]:
        """Those of the experiment, and the images as they come where no orbit has them; for choosing, the one."""
        orbits = self.experiment.orbits
        if phase == "choosing":
            name = self.experiment.tuning.orbit or self.experiment.first_orbit
            return {name: orbits[name]}
        if not any(orbit.plain for orbit in orbits.values()):
            return {**orbits, UPRIGHT: OrbitSpec("rotation", 1)}
        return orbits


def plain_evaluation(experiment: Experiment, row: str, phase: Phase) -> dict[str, Any]:
    """How the cells of a row are judged, as JSON; choosing needs the accuracy alone."""
    wanted = experiment.evaluation
    controlled = wanted.controls and row == experiment.reference
    settings = {
        **asdict(wanted),
        "cost_views": list(wanted.cost_views),
        "controls": experiment.first_orbit if controlled else None,
    }
    return settings if phase == "final" else {**settings, "controls": None, "cost": False, "draws": 1}


def in_order(plans: Iterable[CellPlan]) -> list[Task]:
    """Every task once, each after those that it needs: all classifiers, then row by row."""
    plans = list(plans)
    found: dict[str, Task] = {}
    for task in (*(plan.classifier for plan in plans), *(task for plan in plans for task in plan.tasks)):
        found.setdefault(task.key, task)
    return list(found.values())


def _start(spec: ClassifierSpec, folders: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """A classifier before its training as JSON, files by their checksum; and where these files are."""
    config = {name: value for name, value in asdict(spec).items() if name != "trainings"}
    files: dict[str, str] = {}
    for name in ("weights", "folder"):
        given = getattr(spec, name)
        if given is None:
            continue
        files[name] = find_file(given, folders)
        if not Path(files[name]).exists():
            raise ValueError(f"there is no {given}: put it into .assets, or name its folder with --assets")
        config[name] = file_checksum(files[name])
    return config, files


def _classes_of(files: dict[str, str]) -> tuple[str, ...] | None:
    """What a trained classifier among the files calls its classes; None where there is none, or it does not say."""
    known = read_json(Path(files["folder"]) / CONFIG).get("classes") if "folder" in files else None
    return None if known is None else tuple(known)
