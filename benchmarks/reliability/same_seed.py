"""The same command twice: the same result, to the bit, and a list of what may differ, each with how far it does."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow.parquet as pq
from commands import Command
from jobs import CLOCKS, Job, difference, jobs
from record import Drill
from safetensors.torch import load_file

import tokenstn

ANSWERS = ("probability", "rotation_deg")  # columns that are numbers of the network
PATIENT = 1200.0  # seconds
LAST_DIGITS = 1e-4  # in a probability; a hundred times as much in degrees


def same_seed(drill: Drill, folder: Path) -> None:
    """Every job twice in processes of their own, with another order of hashes; then what may make a difference."""
    folder.mkdir(parents=True)
    every = jobs(folder)
    every["evaluate"] = _evaluate(every, folder)
    for name, job in every.items():
        first, again = (_run(job, folder / f"{name}-{k}", PYTHONHASHSEED=str(k)) for k in (1, 2))
        other = difference(again, first)
        drill.found(
            f"tokenstn {name} twice with the same seed: the same result to the bit",
            f"other hash seeds, fresh processes: {other or 'no difference'} (but for {', '.join(CLOCKS)})",
            not other,
        )
    _seeds(drill, every["train"], folder)
    _threads(drill, every["train"], folder)
    _batches(drill, every["predict"], folder)
    _ranks(drill, every["predict"], folder)


def _seeds(drill: Drill, job: Job, folder: Path) -> None:
    """The comparison can fail."""
    other = difference(_run(job, folder / "train-seed", more=["--seed=1"]), job.result(folder / "train-1"))
    drill.found("another seed gives another result", f"the first difference: {other.split(' is ')[0]}", bool(other))


def _threads(drill: Drill, job: Job, folder: Path) -> None:
    # threads that wait without working slow a busy machine down to a crawl
    _run(job, folder / "train-threads", OMP_NUM_THREADS="2", OMP_WAIT_POLICY="PASSIVE", KMP_BLOCKTIME="0")
    gap = _weights_apart(folder / "train-threads", folder / "train-1")
    drill.found(
        "exception: another number of threads may change the last digits of what is trained",
        f"2 threads instead of 1: the weights differ by {gap:.1e} at most after 18 epochs",
        gap < 0.05,
    )


def _batches(drill: Drill, job: Job, folder: Path) -> None:
    _run(job, folder / "predict-batch", more=["--batch_size=3"])
    gaps = _answers_apart(folder / "predict-batch", folder / "predict-1")
    drill.found(
        "exception: another --batch_size may change the last digits of predictions, and nothing else",
        _in_words("batches of 3 instead of 4", gaps),
        gaps["probability"] <= LAST_DIGITS and gaps["rotation_deg"] <= 100 * LAST_DIGITS and gaps["others"] == 0,
    )


def _ranks(drill: Drill, job: Job, folder: Path) -> None:
    _run(job, folder / "predict-ranks", more=["--devices=2"])
    gaps = _answers_apart(folder / "predict-ranks", folder / "predict-1")
    drill.found(
        "the number of processes changes no prediction",
        _in_words("2 processes instead of 1", gaps),
        max(gaps.values()) == 0,
    )


def same_seed_on_a_gpu(drill: Drill, folder: Path) -> None:
    """Train twice on a GPU, by the function and not by the command, which needs more libraries."""
    digits = jobs(folder)["train"].words(folder)[1]
    for number in (1, 2):
        tokenstn.train(
            digits, out=str(folder / str(number)), primitives=["rotation"], classifier_epochs=8, epochs=10,
            batch_size=16, devices=1, accelerator="gpu", progress=False,
        )  # fmt: skip
    gap = _weights_apart(folder / "1", folder / "2")
    drill.found(
        "exception: on a GPU training need not be equal to the bit (the gradient of a warp is summed in any order)",
        f"the weights of two runs with the same seed differ by {gap:.1e} at most after 18 epochs",
        math.isfinite(gap),
    )


def _evaluate(every: dict[str, Job], folder: Path) -> Job:
    """An evaluation of the model that predict uses."""

    def arguments(out: Path) -> list[str]:
        few = ["--labels=false", "--limit=40", "--group=rotoscale", "--order=4", "--scales=2", "--accelerator=cpu"]
        return [str(folder / "model"), f"--data={folder / 'few.npz'}", f"--out={out}", *few]

    def result(out: Path) -> dict:
        from jobs import file_hash, read_json, without

        return {"answers": file_hash(out / "answers.npz"), "metrics": without(read_json(out / "metrics.json"))}

    return Job("evaluate", arguments, result)


def _run(job: Job, out: Path, more: list[str] | None = None, **environment: str) -> dict:
    ended = Command([*job.words(out), *(more or [])], **environment).ended(PATIENT)
    if ended.code != 0:
        raise SystemExit(f"{job.verb} ended with {ended.code}: {ended.said}")
    return job.result(out)


def _weights_apart(one: Path, other: Path) -> float:
    """The largest difference between the weights of two runs, of the rectified model where both kept one."""
    which = "rectified" if (one / "rectified").exists() and (other / "rectified").exists() else "model"
    first, second = (load_file(run / which / "model.safetensors") for run in (one, other))
    assert tokenstn.load(one / which) is not None
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def _answers_apart(one: Path, other: Path) -> dict[str, float]:
    """The largest difference of each column of numbers, and how many cells differ in the others."""
    tables = [pq.read_table(run / "predictions").to_pylist() for run in (one, other)]
    gaps = {name: max(abs(a[name] - b[name]) for a, b in zip(*tables, strict=True)) for name in ANSWERS}
    exact = ("path", "prediction")
    gaps["others"] = sum(a[name] != b[name] for a, b in zip(*tables, strict=True) for name in exact)
    return gaps


def _in_words(what: str, gaps: dict[str, float]) -> str:
    return (
        f"{what}: probabilities differ by {gaps['probability']:.1e} at most, angles by {gaps['rotation_deg']:.1e}°, "
        f"classes and files in {gaps['others']:.0f} rows"
    )
