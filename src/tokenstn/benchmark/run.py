"""Run one task: train a classifier, train a method around it, or judge a cell over its orbits."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tokenstn.benchmark import scores
from tokenstn.benchmark.cache import OF_WEIGHTS, Cache
from tokenstn.benchmark.experiment import OrbitSpec
from tokenstn.benchmark.models import OF_CLASSIFIER, build_classifier, build_method, load_weights, save_weights
from tokenstn.benchmark.settings import primitives_from
from tokenstn.benchmark.tables import open_place
from tokenstn.benchmark.task import Task
from tokenstn.data import ImageTable
from tokenstn.evaluation.answers_file import save_answers
from tokenstn.evaluation.cost import device_name, measure_cost
from tokenstn.evaluation.enough import fit_enough
from tokenstn.evaluation.evaluate import evaluate, versions
from tokenstn.evaluation.method import Method
from tokenstn.evaluation.metrics_json import plain, to_json
from tokenstn.models import TokenSTN
from tokenstn.training.engine import Machine, Trained, train_classifier, train_rectifier, train_rival
from tokenstn.training.recipes import Recipe

VALIDATIONS = 5  # of a training: a cell is judged over its orbits, these only show in the log how it went
EVALUATION_SEED = 0  # of the first shear and of random views: the same for all seeds, so that answers can be paired


@dataclass(frozen=True)
class Equipment:
    """What a process computes with. accelerator: cpu or gpu. workers: processes that read images."""

    accelerator: str = "cpu"
    workers: int = 0

    @property
    def device(self) -> torch.device:
        """Where models are evaluated; a process sees one GPU."""
        return torch.device("cuda" if self.accelerator == "gpu" else "cpu")


def run_task(task: Task, cache: Cache, equipment: Equipment) -> dict[str, Any]:
    """Compute what the task asks for and keep it; returns what result.json holds."""
    start = time.monotonic()
    folder = cache.begin(task)
    torch.set_float32_matmul_precision(task.config["matmul"])
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = RUNNERS[task.kind](task, cache, folder, equipment)
    said = dict.fromkeys(str(one.message) for one in heard if one.category is UserWarning)
    result = {
        **found,
        OF_WEIGHTS: cache.classifier_weights(task),
        "label": task.label,
        "seconds": round(time.monotonic() - start, 2),
        "device": device_name(equipment.device),
        "versions": versions(),
        "warnings": list(said),
    }
    result = plain(result)
    cache.finish(task, result)
    return result


def _run_classifier(task: Task, cache: Cache, folder: Path, equipment: Equipment) -> dict[str, Any]:
    config, table = task.config, open_place(task.place)
    torch.manual_seed(config["seed"])
    bare = build_classifier(config["classifier"], task.files, table)
    training, found = config["training"], {}
    if training["recipe"] is not None:
        moves = training["augmentation"]
        trained = train_classifier(
            bare,
            table,
            Recipe(**training["recipe"]),
            folder,
            augmentation=None if moves is None else primitives_from(moves),
            seed=config["seed"],
            machine=_machine(config, equipment),
            resume=_started(folder),
        )
        found = _about_training(trained)
    weights = save_weights(bare, folder)
    return {**found, "weights_sha256": weights, "parameters": sum(p.numel() for p in bare.parameters())}


def _run_training(task: Task, cache: Cache, folder: Path, equipment: Equipment) -> dict[str, Any]:
    config, table = task.config, open_place(task.place)
    bare = _trained_classifier(task, cache, table)
    torch.manual_seed(config["seed"])
    model = build_method(config, bare)
    recipe, machine = Recipe(**config["recipe"]), _machine(config, equipment)
    how: dict[str, Any] = {
        "seed": config["seed"], "upright": config["upright"], "machine": machine, "resume": _started(folder),
    }  # fmt: skip
    if isinstance(model, TokenSTN):
        trained = train_rectifier(model, table, recipe, folder, **how)
    else:
        moves = primitives_from(config["augmentation"])
        trained = train_rival(model, table, recipe, folder, augmentation=moves, **how)
    weights = save_weights(model, folder, _left_out(config))
    return {**_about_training(trained), "weights_sha256": weights}


def _run_cell(task: Task, cache: Cache, folder: Path, equipment: Equipment) -> dict[str, Any]:
    config, table = task.config, open_place(task.place)
    model = _ready_method(task, cache, table).to(equipment.device).eval()
    poses = "absolute" if config["upright"] else "relative"
    if isinstance(model, TokenSTN):
        model.poses = poses
    evaluation, found = config["evaluation"], {}
    half = config["precision"] == "bf16-mixed"
    enough = None
    if "enough" in config and isinstance(model, TokenSTN):
        orbit = config["orbits"][config["enough"]["orbit"]]
        with torch.autocast(equipment.device.type, torch.bfloat16, enabled=half):
            enough = fit_enough(
                model,
                table,
                table.split(config["enough"]["split"]),
                OrbitSpec(**orbit).build(),
                mask=orbit["mask"],
                batch_size=evaluation["batch_size"],
                workers=equipment.workers,
                seed=EVALUATION_SEED,
            )
        model.auto = model.auto if enough is None else enough.auto
    for name, orbit in config["orbits"].items():
        with torch.autocast(equipment.device.type, torch.bfloat16, enabled=half):
            examined = evaluate(
                model,
                table,
                config["split"],
                group=OrbitSpec(**orbit).build(),
                views=config["views"] if not model.bare else 1,
                sampling=config["sampling"],
                mask=orbit["mask"],
                poses=poses,
                batch_size=evaluation["batch_size"],
                workers=equipment.workers,
                controls=evaluation["controls"] == name,
                cost=False,
                examples=0,
                draws=evaluation["draws"],
                seed=EVALUATION_SEED,
                model_name=task.label,
            )
        kept = folder / "orbits" / scores.file_name(name)
        save_answers(examined.answers, kept)
        scores.write_json(kept / "metrics.json", to_json(examined.evaluation))
        found[name] = plain(scores.orbit_scores(examined))
    numbers = evaluation["cost_views"]
    cost = measure_cost(
        model,
        batch_size=evaluation["batch_size"],
        sampling=config["sampling"],
        measured=evaluation["cost"],
        numbers=numbers,
    )
    return {"orbits": found, "cost": plain(cost), "enough": None if enough is None else plain(asdict(enough))}


def _ready_method(task: Task, cache: Cache, table: ImageTable) -> Method:
    """The method of a cell, with the weights of its training where it has one."""
    model = build_method(task.config, _trained_classifier(task, cache, table))
    if task.config["trained"] is not None:
        left_out = _left_out(task.config)
        load_weights(model, cache.named("training", task.config["trained"]), left_out)
    return model


def _trained_classifier(task: Task, cache: Cache, table: ImageTable) -> TokenSTN:
    bare = build_classifier(task.config["classifier"], task.files, table)
    load_weights(bare, cache.named("classifier", task.config["base"]))
    return bare.eval()


def _left_out(config: dict[str, Any]) -> str | None:
    """A frozen classifier is the same for all methods on it, and is not kept again."""
    return OF_CLASSIFIER if config["recipe"]["classifier"] == "frozen" else None


def _machine(config: dict[str, Any], equipment: Equipment) -> Machine:
    return Machine(
        equipment.accelerator,
        devices=1,
        precision=config["precision"],
        workers=equipment.workers,
        progress=False,
        validations=VALIDATIONS,
    )


def _started(folder: Path) -> bool:
    """Whether a training was interrupted here after an epoch at least."""
    return (folder / "checkpoints" / "last.ckpt").is_file()


def _about_training(trained: Trained) -> dict[str, Any]:
    return {
        "epochs": trained.epochs,
        "figures": trained.figures,
        "frozen": None if trained.frozen is None else str(trained.frozen),
        "collapsed": [name for name, health in trained.collapse.items() if health.collapsed],
        "unreadable": len(trained.unreadable),
    }


RUNNERS = {"classifier": _run_classifier, "training": _run_training, "cell": _run_cell}
