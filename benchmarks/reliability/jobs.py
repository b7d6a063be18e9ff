"""Four small jobs of seconds (train, predict, rectify, bench), what their result is, and which files are torn."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file
from small_model import saved_model

from tokenstn.data import open_images

# what differs between two runs of the same: the clock, what was chosen by it, and how they were called
CLOCKS = (
    "seconds",
    "task_seconds",
    "wall_seconds",
    "train_seconds",
    "evaluate_seconds",
    "throughput",
    "batch_size",  # at which the throughput was measured: as many as fit into a time
    "created",
    "command",
)
EXPERIMENT = {
    "title": "Small",
    "seeds": [0],
    "data": {"digits": {"source": "digits", "limit": {"train": 80, "val": 20, "test": 20}}},
    "classifier": {
        "arch": "small-vit",
        "arguments": {"embed_dim": 16, "depth": 2, "num_heads": 2},
        "trainings": {"vanilla": {"recipe": {"epochs": 12, "batch_size": 20}}},
    },
    "orbits": {"rotation": {"group": "rotation", "order": 4}},
    "evaluation": {"batch_size": 20, "draws": 2},
    "methods": {
        "vanilla": {},
        "stn": {"recipe": {"epochs": 12, "batch_size": 20}},
        "tokenstn": {"options": {"primitives": ["rotation"]}, "recipe": {"epochs": 12, "batch_size": 20}},
    },
}


@dataclass(frozen=True)
class Job:
    """A command for a folder, and what its result is."""

    verb: str
    arguments: Callable[[Path], list[str]]
    result: Callable[[Path], dict[str, Any]]

    def words(self, out: Path) -> list[str]:
        """The command for a folder, also to go on in it: only train has to be told."""
        goes_on = self.verb == "train" and (out / "config.yaml").exists()
        return [self.verb, *self.arguments(out), "--progress=false", *(["--resume=true"] if goes_on else [])]


def jobs(folder: Path) -> dict[str, Job]:
    """The four, with their data and their model in a folder."""
    digits, model = _digits(folder / "few.npz"), saved_model(folder / "model")
    photos, experiment = _photos(folder / "photos"), folder / "small.yaml"
    experiment.write_text(yaml.safe_dump(EXPERIMENT))
    cpu = ["--accelerator=cpu", "--devices=1"]
    return {
        "train": Job(
            "train",
            lambda out: [str(digits), f"--out={out}", "--primitives=[rotation]", "--classifier_epochs=8",
                         "--epochs=10", "--batch_size=16", *cpu],
            _of_train,
        ),
        "predict": Job(
            "predict",
            lambda out: [str(model), str(photos), f"--out={out}", "--shard_size=4", "--batch_size=4", "--workers=1",
                         *cpu],
            _of_predict,
        ),
        "rectify": Job(
            "rectify",
            lambda out: [str(model), str(photos), f"--out={out}", "--shard_size=4", "--batch_size=4", "--workers=1",
                         "--accelerator=cpu", "--sheet=true"],
            _of_rectify,
        ),
        "bench": Job(
            "bench",
            lambda out: [str(experiment), f"--out={out / 'results'}", f"--cache={out / 'cache'}", "--processes=1",
                         *cpu],
            _of_bench,
        ),
    }  # fmt: skip


def torn(folder: Path) -> list[str]:
    """Files that cannot be read as what they are; those in work and TensorBoard's, which grow, are not looked at."""
    wrong = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if not path.is_file() or any(part.startswith(".") and "unfinished" in part for part in inside):
            continue
        read = READERS.get(path.suffix)
        try:
            if read is not None:
                read(path)
        except Exception as error:  # a torn file may break its reader in any way
            wrong.append(f"{path.relative_to(folder)}: {error}")
    return wrong


def left_over(folder: Path) -> list[str]:
    """What should not be there when a job is done."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*unfinished*")]


def without(document: Any, names: tuple[str, ...] = CLOCKS) -> Any:
    """JSON without some keys, at any depth."""
    if isinstance(document, Mapping):
        return {name: without(value, names) for name, value in document.items() if name not in names}
    return [without(value, names) for value in document] if isinstance(document, list) else document


def difference(found: Any, wanted: Any, place: str = "") -> str:
    """Where two results differ first; empty where they are the same."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        names = sorted(found.keys() | wanted.keys(), key=str)
        return next(filter(None, (difference(found.get(n), wanted.get(n), f"{place}/{n}") for n in names)), "")
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        pairs = enumerate(zip(found, wanted, strict=True))
        return next(filter(None, (difference(one, other, f"{place}[{k}]") for k, (one, other) in pairs)), "")
    return "" if found == wanted else f"{place} is {str(found)[:60]}, not {str(wanted)[:60]}"


def _of_train(out: Path) -> dict[str, Any]:
    files = ("model/config.json", "model/model.safetensors", "answers.npz", "logs/csv/metrics.csv",
             "classifier/logs/csv/metrics.csv", "training_images.png")  # fmt: skip
    return {**{name: file_hash(out / name) for name in files}, "metrics": without(read_json(out / "metrics.json"))}


def _of_predict(out: Path) -> dict[str, Any]:
    parts = sorted((out / "predictions").glob("*.parquet"))
    rows = {path.name: pq.read_table(path).to_pylist() for path in parts}
    return {"rows": rows, "rejected": (out / "rejected.csv").read_text(), "settings": read_json(out / "predict.json")}


def _of_rectify(out: Path) -> dict[str, Any]:
    photos = {str(path.relative_to(out)): file_hash(path) for path in sorted((out / "images").rglob("*.*"))}
    tables = {name: (out / name).read_text() for name in ("corrections.csv", "rejected.csv")}
    return {**photos, **tables, "sheet": file_hash(out / "sheet.png")}


def _of_bench(out: Path) -> dict[str, Any]:
    cells = {path.parent.name: without(read_json(path)) for path in sorted((out / "cache").rglob("result.json"))}
    answers = {str(path.relative_to(out)): file_hash(path) for path in sorted((out / "cache").rglob("answers.npz"))}
    weights = {path.parent.name: file_hash(path) for path in sorted((out / "cache").rglob("weights.safetensors"))}
    return {"results": without(read_json(out / "results" / "small.json")), **answers, **weights, **cells}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _ends(end: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        if not path.read_text(encoding="utf-8").rstrip("\n").endswith(end):
            raise ValueError("its end is missing")

    return read


def _read_csv(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    rows = list(csv.reader(io.StringIO(text)))
    if not text.endswith("\n") or len({len(row) for row in rows}) != 1:
        raise ValueError("a row is cut off")


def _read_picture(path: Path) -> None:
    with Image.open(path) as image:
        image.load()


READERS: dict[str, Callable[[Path], Any]] = {
    ".json": read_json,
    ".yaml": lambda path: yaml.safe_load(path.read_text()),
    ".parquet": pq.read_table,
    ".safetensors": load_file,
    ".ckpt": lambda path: torch.load(path, weights_only=True),
    ".npz": lambda path: dict(np.load(path, allow_pickle=False)),
    ".onnx": lambda path: __import__("onnx").load(path),
    ".png": _read_picture,
    ".jpg": _read_picture,
    ".csv": _read_csv,
    ".svg": ElementTree.parse,
    ".html": _ends("</html>"),
    ".tex": _ends("\\end{table}"),
}


def _digits(path: Path) -> Path:
    table = open_images("digits")
    pixels, labels = table.items[:240, 0].numpy(), table.labels[:240].numpy()
    np.savez(path, x_train=pixels[:180], y_train=labels[:180], x_test=pixels[180:], y_test=labels[180:])
    return path


def _photos(folder: Path, count: int = 160) -> Path:
    """Photos of 120 × 90 pixels, every tenth of them broken."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for number in range(count):
        small = Image.fromarray(random.integers(0, 256, (9, 12, 3), dtype=np.uint8))
        path = folder / f"{number:03}.{'png' if number % 2 else 'jpg'}"
        small.resize((120, 90), Image.Resampling.BICUBIC).save(path)
        if number % 10 == 0:
            path.write_bytes(path.read_bytes()[:200])
    return folder
