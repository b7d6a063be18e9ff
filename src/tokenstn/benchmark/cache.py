"""A folder for each task: config.json, whatever it leaves, and result.json last of all, which says it is finished."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tokenstn.benchmark.task import Task, folder_of
from tokenstn.system.documents import read_json
from tokenstn.system.files import remove_unfinished, write_text

CONFIG, RESULT, ERROR = "config.json", "result.json", "error.txt"
WEIGHTS = "weights.safetensors"  # what a training leaves for those who need it
OF_WEIGHTS = "classifier_sha256"  # in a result: the weights of the classifier that it was found with


class Cache:
    """Results by the hash of what they depend on, under one folder."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def folder(self, task: Task) -> Path:
        """Where a task leaves what it makes."""
        return self.root / task.folder

    def named(self, kind: str, key: str) -> Path:
        """The folder of a task that is known by its key."""
        return self.root / folder_of(kind, key)

    def begin(self, task: Task) -> Path:
        """Make the folder and keep the config; an error of the last time goes."""
        folder = self.folder(task)
        remove_unfinished(folder)
        (folder / ERROR).unlink(missing_ok=True)
        write_text(folder / CONFIG, json.dumps(task.config, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
        return folder

    def finish(self, task: Task, result: dict[str, Any]) -> None:
        """Write the result: from here on the task counts as finished. Checkpoints are not needed any more."""
        folder = self.folder(task)
        write_text(folder / RESULT, json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)

    def fail(self, task: Task, trace: str) -> None:
        """Keep what went wrong; the task is tried again on the next start."""
        folder = self.folder(task)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / ERROR, trace)

    def result(self, task: Task) -> dict[str, Any] | None:
        """What a finished task found; None where it is not finished, or where its file is no JSON."""
        return _found_in(self.folder(task))

    def done(self, task: Task) -> bool:
        """Whether the task is finished, and what others need of it is there: results may be kept without weights.

        What was found with one training of a frozen classifier is not finished for another one: on a GPU two trainings
        of the same seed may differ, and methods are compared on the same weights.
        """
        result = self.result(task)
        if result is None or (task.kind != "cell" and not (self.folder(task) / WEIGHTS).exists()):
            return False
        now, then = self.classifier_weights(task), result.get(OF_WEIGHTS)
        return not uses_frozen(task) or now is None or then is None or now == then

    def classifier_weights(self, task: Task) -> str | None:
        """The sha256 of the weights that the task's classifier has now; None where they are not there."""
        base = task.config.get("base")
        found = None if base is None else _found_in(self.named("classifier", base))
        return None if found is None else found["weights_sha256"]


def _found_in(folder: Path) -> dict[str, Any] | None:
    try:
        return read_json(folder / RESULT)
    except (OSError, ValueError):
        return None


def uses_frozen(task: Task) -> bool:
    """Whether the task uses the weights of a classifier as they are."""
    config = task.config
    if task.kind == "cell" and config["trained"] is None:
        return True
    return task.kind in ("cell", "training") and config["recipe"]["classifier"] == "frozen"
