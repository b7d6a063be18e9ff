"""Training a rectifier beside fine-tuning its classifier on the same photos, and how long a step waits for images.

    python benchmarks/training_speed.py --accelerator gpu --model vit_base_patch16_224 --photos 1600

The photos are made up, as JPEG files of 640×480 pixels in a temporary folder, so that reading them is what it is; the
classifier starts at random. Both run as ``tokenstn train`` would run them, one after the other, with validation,
checkpoints and logs. What recording and reading take in the first epoch counts, too.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from lightning.pytorch.profilers import SimpleProfiler
from PIL import Image
from timing import write

from tokenstn import TokenSTN
from tokenstn.data import ImageTable, open_images
from tokenstn.training import engine
from tokenstn.training.recipes import FINE_TUNED, RECIPES
from tokenstn.verbs.train_steps import enough_epochs, with_rectifier

WAITING = ("train_dataloader_next", "transfer_batch_to_device")  # what Lightning calls it


def main() -> None:
    """Parse, make photos, time both, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accelerator", default="gpu" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default="bf16-mixed" if torch.cuda.is_available() else "32-true")
    parser.add_argument("--model", default="vit_base_patch16_224")
    parser.add_argument("--photos", type=int, default=1600)
    parser.add_argument("--share", type=float, default=1.0, help="of the epochs of a whole run")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/training_speed.json"))
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    machine = engine.Machine(
        options.accelerator, devices=1, precision=options.precision, workers=options.workers, progress=False
    )
    found: dict[str, Any] = {"model": options.model, "photos": options.photos, "precision": options.precision}
    with tempfile.TemporaryDirectory() as folder:
        table = photos_in(Path(folder) / "photos", options.photos)
        for kind in ("warm-up", "classifier", "rectifier"):
            found[kind] = timed(kind, table, options, machine, Path(folder) / kind)
    del found["warm-up"]
    found["ratio"] = round(found["rectifier"]["seconds"] / found["classifier"]["seconds"], 3)
    for name in ("classifier", "rectifier"):
        said = "{seconds:.1f} s, {epochs} epochs, {steps} steps of {ms_per_step:.1f} ms, {waiting:.1%} waiting"
        print(name, said.format(**found[name]), found[name]["parts"])
    print(f"the rectifier takes {found['ratio']:.2f} of the time of fine-tuning the classifier")
    write(options.out, "cuda" if options.accelerator == "gpu" else "cpu", found)


def timed(
    kind: str, table: ImageTable, options: argparse.Namespace, machine: engine.Machine, out: Path
) -> dict[str, Any]:
    """Train: seconds of the whole run and of a step, and the share of all steps that waits for images."""
    classifier = timm.create_model(options.model, num_classes=len(table.classes))
    recipe = RECIPES["default"] if kind == "rectifier" else FINE_TUNED
    if kind == "rectifier":
        recipe = enough_epochs(recipe, len(table.split("train")))
    share = options.share if kind != "warm-up" else 0.0
    recipe = replace(recipe, epochs=max(2, round(share * recipe.epochs)))
    with profiled() as profiler:
        start = time.perf_counter()
        if kind == "rectifier":
            model = with_rectifier(TokenSTN(classifier, primitives=()), recipe)
            engine.train_rectifier(model, table, recipe, out, labelled=False, machine=machine)
        else:
            engine.train_classifier(TokenSTN(classifier, primitives=()), table, recipe, out, machine=machine)
        total = time.perf_counter() - start
    spent = {name: sum(took) for name, took in profiler.recorded_durations.items()}
    steps, epochs = profiler.recorded_durations["run_training_batch"], spent["run_training_epoch"]
    waited = sum(took for name, took in spent.items() if name.endswith(WAITING))
    validated = sum(took for name, took in spent.items() if name.endswith("validation_step"))
    parts = {"steps": sum(steps), "validation": validated, "checkpoints": spent.get("save_checkpoint", 0.0)}
    return {
        "seconds": round(total, 2),
        "epochs": recipe.epochs,
        "steps": len(steps),
        "ms_per_step": round(1000 * statistics.median(steps), 2),
        "waiting": round(waited / (waited + sum(steps)), 4),
        "parts": {name: round(took, 2) for name, took in {**parts, "around epochs": total - epochs}.items()},
    }


@contextmanager
def profiled() -> Iterator[SimpleProfiler]:
    """Lightning's own profiler in every trainer that is made."""
    profiler, trainer = SimpleProfiler(), engine.lightning.Trainer
    engine.lightning.Trainer = lambda **settings: trainer(**settings, profiler=profiler)  # pyright: ignore
    try:
        yield profiler
    finally:
        engine.lightning.Trainer = trainer


def photos_in(folder: Path, count: int) -> ImageTable:
    """A folder of photos of ten classes, a fifth of them for validation."""
    generator = np.random.default_rng(0)
    for number in range(count):
        split = "val" if number // 10 % 5 == 0 else "train"  # every fifth of each class
        path = folder / split / str(number % 10) / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        blurred = Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((640, 480))
        blurred.save(path, quality=90)
    return open_images(folder)


if __name__ == "__main__":
    main()
