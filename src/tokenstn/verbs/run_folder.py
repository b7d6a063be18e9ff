"""The folder of a training run: what it was asked, whether it can go on, and what it leaves.

Processes of a distributed run share it; only the first one writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch.utilities import rank_zero_only

from tokenstn.data import ImageTable
from tokenstn.data.splits import split_digest
from tokenstn.evaluation.answers_file import save_answers
from tokenstn.evaluation.evaluate import Examination
from tokenstn.evaluation.metrics_json import to_json
from tokenstn.reports import write_report
from tokenstn.system.documents import read_yaml
from tokenstn.system.files import remove_unfinished, require_writable, write_text
from tokenstn.training.engine import Trained
from tokenstn.verbs.models import IMAGES, METRICS
from tokenstn.verbs.typed import called

SCHEMA = "tokenstn.run/1"
CLASSIFIER = "classifier"  # the part of a run folder for a classifier that is trained first
# what may change when a run goes on: where and how it runs, not what it computes
FREE = {"accelerator", "devices", "num_nodes", "strategy", "compile", "logger", "workers", "resume", "progress", "out",
        "on_nonfinite"}  # fmt: skip


def require_free(folder: Path, arguments: Mapping[str, Any], resume: bool) -> None:
    """Refuse a folder with a run that was started with other settings, or with a finished one that is to begin anew."""
    if resume:
        if not (folder / "config.yaml").is_file():
            raise FileNotFoundError(f"there is no run in {folder} to go on with; start it without --resume")
        started = _settings(folder / "config.yaml")
        now = _plain(arguments)
        as_begun = FREE | ({"epochs"} if now["epochs"] is None else set())
        other = [name for name in now if name not in as_begun and started.get(name) != now[name]]
        if other:
            was = ", ".join(f"{name}={started.get(name)!r} (now {now[name]!r})" for name in other)
            raise ValueError(f"the run in {folder} was started with {was}: go on with the same settings")
    if resume and is_finished(folder):
        return  # a command that is called until it is done may be called once too often
    require_writable(folder)
    if is_finished(folder):
        raise FileExistsError(f"{folder} holds a finished run; choose another --out, or remove it")
    if not resume and is_main_process() and any(has_checkpoint(part, True) for part in (folder, folder / CLASSIFIER)):
        raise FileExistsError(f"{folder} holds a run that was not finished: go on with --resume=true, or remove it")


def _settings(path: Path) -> dict[str, Any]:
    found = read_yaml(path) or {}
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no settings: it is not what tokenstn train wrote")
    return found


def epochs_begun_with(folder: Path, resume: bool) -> int | None:
    """How many epochs a run that goes on was begun with: as many as are enough depends on where it runs."""
    begun = _settings(folder / "config.yaml").get("epochs") if resume else None
    return begun if isinstance(begun, int) else None


def require_same_images(folder: Path, images: ImageTable, resume: bool) -> None:
    """Refuse to go on with other images: split anew, some that were trained on would be kept apart to judge by."""
    known = folder / IMAGES
    if not resume or not known.is_file():
        return
    if known.read_text(encoding="ascii", errors="replace").strip() != split_digest(images):
        raise ValueError(
            f"the images changed since the run in {folder} began (added, removed, renamed, labelled or split "
            "otherwise): put them back as they were, or start anew in another --out"
        )


def begin(folder: Path, arguments: Mapping[str, Any], images: ImageTable) -> None:
    """Make the folder and keep the settings, and by what the images were split."""
    if is_main_process():
        remove_unfinished(folder)
        write_text(folder / IMAGES, f"{split_digest(images)}\n")
        write_text(folder / "config.yaml", yaml.safe_dump(_plain(arguments), sort_keys=False))


def is_finished(folder: Path) -> bool:
    """Whether nothing is left to do."""
    return (folder / METRICS).exists()


def metrics_of(trained: Trained, found: Examination, poses: str, keeps_bare: bool, seconds: float) -> dict[str, Any]:
    """What ``metrics.json`` holds."""
    return {
        "schema": SCHEMA,
        "poses": poses,
        "model_is_bare_classifier": keeps_bare,
        "seconds": round(seconds, 1),
        "training": {
            "epochs": trained.epochs,
            "figures": {name: value if math.isfinite(value) else None for name, value in trained.figures.items()},
            "frozen_parameters": None if trained.frozen is None else trained.frozen.frozen_parameters,
            "unreadable_images": trained.unreadable,
            "skipped_steps": trained.skipped_steps,
        },
        "collapse": {name: asdict(health) for name, health in trained.collapse.items()},
        "evaluation": to_json(found.evaluation),
    }


def finish(folder: Path, found: Examination, metrics: Mapping[str, Any]) -> None:
    """Write the report and, last of all, ``metrics.json``: a run that has it is finished."""
    write_report(found.evaluation, found.examples, folder)
    save_answers(found.answers, folder)
    write_text(folder / METRICS, json.dumps(metrics, indent=2, allow_nan=False) + "\n")


def has_checkpoint(folder: Path, resume: bool) -> bool:
    """Whether a stopped run is to go on from here."""
    return resume and (folder / "checkpoints" / "last.ckpt").is_file()


def is_main_process() -> bool:
    """Whether this process writes."""
    return getattr(rank_zero_only, "rank", None) in (None, 0)


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as YAML can hold them: objects from Python become what they are called."""
    kinds = (str, int, float, bool, list, type(None))
    return {name: value if isinstance(value, kinds) else called(value) for name, value in arguments.items()}
