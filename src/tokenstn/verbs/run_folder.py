"""The folder of a training run: what it was asked, whether it can go on, and what it leaves.

Processes of a distributed run share it; only the first one writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch.utilities import rank_zero_only

from tokenstn.evaluation.answers_file import save_answers
from tokenstn.evaluation.evaluate import Examination
from tokenstn.evaluation.metrics_json import to_json
from tokenstn.reports import write_report
from tokenstn.reports.write import write_text
from tokenstn.training.engine import Trained
from tokenstn.verbs.typed import called

SCHEMA = "tokenstn.run/1"
# what may change when a run goes on: where and how it runs, not what it computes
FREE = {"accelerator", "devices", "num_nodes", "strategy", "compile", "logger", "workers", "resume", "progress", "out"}


def require_free(folder: Path, arguments: Mapping[str, Any], resume: bool) -> None:
    """Refuse a folder with a finished run, or with one that was started with other settings."""
    if resume:
        if not (folder / "config.yaml").is_file():
            raise FileNotFoundError(f"there is no run in {folder} to go on with; start it without --resume")
        started = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8")) or {}
        now = _plain(arguments)
        other = [name for name in now if name not in FREE and started.get(name) != now[name]]
        if other:
            was = ", ".join(f"{name}={started.get(name)!r} (now {now[name]!r})" for name in other)
            raise ValueError(f"the run in {folder} was started with {was}: go on with the same settings")
    if (folder / "metrics.json").exists():
        raise FileExistsError(f"{folder} holds a finished run; choose another --out, or remove it")
    if not resume and is_main_process() and has_checkpoint(folder, True):
        raise FileExistsError(f"{folder} holds a run that was not finished: go on with --resume=true, or remove it")


def begin(folder: Path, arguments: Mapping[str, Any]) -> None:
    """Make the folder and keep the settings."""
    if is_main_process():
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "config.yaml", yaml.safe_dump(_plain(arguments), sort_keys=False))


def finish(
    folder: Path, trained: Trained, found: Examination, poses: str, keeps_bare: bool, seconds: float
) -> dict[str, Any]:
    """Write the report and, last of all, ``metrics.json``; returns what that holds."""
    write_report(found.evaluation, found.examples, folder)
    save_answers(found.answers, folder)
    metrics = {
        "schema": SCHEMA,
        "poses": poses,
        "model_is_bare_classifier": keeps_bare,
        "seconds": round(seconds, 1),
        "training": {
            "epochs": trained.epochs,
            "figures": trained.figures,
            "frozen_parameters": None if trained.frozen is None else trained.frozen.frozen_parameters,
            "unreadable_images": trained.unreadable,
        },
        "collapse": {name: asdict(health) for name, health in trained.collapse.items()},
        "evaluation": to_json(found.evaluation),
    }
    write_text(folder / "metrics.json", json.dumps(metrics, indent=2) + "\n")
    return metrics


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
