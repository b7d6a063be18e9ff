"""Signals that ask a command to stop, and processes that it loses: workers that read, ranks, workers of a bench."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from commands import Command, running
from jobs import Job, difference, left_over, torn
from record import Drill

SOON = 60.0  # seconds in which a command has to end


@dataclass(frozen=True)
class Stage:
    """A command that is far enough for what will happen to it: ``there`` is a file in its folder."""

    job: str
    there: str
    words: str


STAGES = (
    Stage("train", "classifier/logs/csv/metrics.csv", "train, in the classifier"),
    Stage("train", "logs/csv/metrics.csv", "train, in the rectifier"),
    Stage("predict", "predictions/part-000003.parquet", "predict"),
    Stage("rectify", ".corrections/part-000003.parquet", "rectify"),
    Stage("bench", "cache/classifier-*/checkpoints/last.ckpt", "bench"),
)
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def signals(drill: Drill, jobs: dict[str, Job], results: dict[str, dict], folder: Path) -> None:
    """Ctrl-C and SIGTERM in every stage; then the same command again."""
    for number, code in CODES.items():
        wrong, kept = [], []
        for stage in STAGES:
            job, out = jobs[stage.job], folder / f"{number.name}-{stage.words}"
            command = Command(job.words(out))
            command.until(lambda out=out, stage=stage: any(out.glob(stage.there)))
            before = _step(out)
            os.kill(command.process.pid, number)
            ended = command.ended(SOON)
            if ended.code != code or not ended.plain:
                print(ended.said, flush=True)
                wrong.append(f"{stage.words}: exit code {ended.code}, {ended.last}")
            if stage.job == "train":
                kept.append(f"{stage.words}: step {before} before, {_step(out)} after")
                wrong += [] if _step(out) > before else [f"{stage.words}: no checkpoint was written"]
            wrong += torn(out) + left_over(out)
            again = Command(job.words(out)).ended()
            other = again.last if again.code else difference(job.result(out), results[stage.job])
            wrong += [f"{stage.words}: called again it ends otherwise, {other}"] if other else []
        name = "Ctrl-C (SIGINT)" if number == signal.SIGINT else number.name
        drill.found(
            f"{name} ends a command with exit code {code}, training with a checkpoint; called again it goes on",
            f"{len(STAGES)} commands; checkpoints of {'; '.join(kept)}; {len(wrong)} ended otherwise"
            f"{': ' + wrong[0] if wrong else ''}",
            not wrong,
        )


def lost_processes(drill: Drill, jobs: dict[str, Job], folder: Path) -> None:
    """Kill a process that another one needs."""
    two = ["--devices=2", "--strategy=ddp"]
    cases: list[tuple[str, str, list[str], str, Callable[[Command], int], dict[str, str]]] = [
        (
            "a process that reads images for predict", "predict", [], "predictions/part-000003.parquet",
            _first_child, {},
        ),
        (
            "a process that reads images for rectify", "rectify", [], ".corrections/part-000003.parquet",
            _first_child, {},
        ),
        (
            "a process that reads images for train", "train", ["--workers=1"], "classifier/logs/csv/metrics.csv",
            _first_child, {"READ_ANEW": "yes"},
        ),
        ("the second rank of train", "train", two, "classifier/logs/csv/metrics.csv", _first_child, {}),
        ("the second rank of train, later", "train", two, "logs/csv/metrics.csv", _first_child, {}),
        ("the second rank of predict", "predict", ["--devices=2"], "predictions/part-000003.parquet", _rank, {}),
        ("the first rank of train", "train", two, "classifier/logs/csv/metrics.csv", _itself, {}),
        ("the first rank of predict", "predict", ["--devices=2"], "predictions/part-000003.parquet", _itself, {}),
    ]  # fmt: skip
    for what, name, more, there, victim, environment in cases:
        out = folder / what
        command = Command([*jobs[name].words(out), *more], **environment)
        command.until(lambda out=out, there=there: any(out.glob(there)))
        others = command.children()
        os.kill(victim(command), signal.SIGKILL)
        ended = command.ended(SOON)
        deadline = time.monotonic() + SOON
        while any(map(running, others)) and time.monotonic() < deadline:
            time.sleep(0.1)
        alone = [process for process in others if running(process)]
        said = _sentence(command)
        wanted = -signal.SIGKILL if victim is _itself else 1
        drill.found(
            f"{what} dies: the run ends with a message",
            f"exit code {ended.code}, {len(alone)} processes left; “{said}”",
            ended.code == wanted and not alone and bool(said) and ended.plain,
        )
        shutil.rmtree(out)


def _sentence(command: Command) -> str:
    """What it said about a process."""
    said = [line for line in command.said().splitlines() if re.search("process.*(has died|of this run)", line)]
    return re.sub(r"pid(\(s\))? \d+", "pid …", said[-1]) if said else ""


def _first_child(command: Command) -> int:
    return command.children()[0]


def _rank(command: Command) -> int:
    """The second rank, and not a process that reads images for the first."""
    return next(child for child in command.children() if _rank_of(child) == "1")


def _rank_of(process: int) -> str:
    words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return next((word.split(b"=")[1].decode() for word in words if word.startswith(b"LOCAL_RANK=")), "")


def _itself(command: Command) -> int:
    return command.process.pid


def _step(out: Path) -> int:
    """How many steps the checkpoints of a run have, of classifier and rectifier together."""
    steps = 0
    for path in (out / "classifier" / "checkpoints" / "last.ckpt", out / "checkpoints" / "last.ckpt"):
        if path.exists():
            steps += torch.load(path, weights_only=True)["global_step"]
    return steps
