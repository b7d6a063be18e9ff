"""Milliseconds an image of the methods of an experiment, in turns, on the same classifier and the same moved photos.

    python benchmarks/cost_of_methods.py moths-views:vanilla,four,six moths-eu:tta,its,stn --cache runs/bench

Rows are taken from experiments, EXPERIMENT:ROW,ROW…; the first row is what the others are compared with, and each photo
is moved by an element of its first orbit. Ours uses the weights that ``tokenstn bench`` trained, and what it found
about when one view is enough, for how many views it looks at depends on them; what the others cost does not, and they
need not have been trained. With the package equiadapt beside it there is a row for that, too.
"""

from __future__ import annotations

import argparse
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from cells import cell_of, classifier_of
from equiadapt_peer import Canonicalized
from shortcuts import moved_photos
from timing import in_turns, write

from tokenstn.benchmark.cache import WEIGHTS, Cache
from tokenstn.benchmark.experiment import OrbitSpec
from tokenstn.benchmark.files import read_experiment
from tokenstn.benchmark.models import OF_CLASSIFIER, build_method, load_weights
from tokenstn.benchmark.tables import open_place
from tokenstn.benchmark.task import Task
from tokenstn.models import AutoViews, TokenSTN
from tokenstn.models.preprocessing import preprocessing_of


def main() -> None:
    """Parse, build, time, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="+", help="EXPERIMENT:ROW,ROW…")
    parser.add_argument("--cache", type=Path, default=Path("runs/bench"))
    parser.add_argument("--assets", default=".assets")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row, about")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("results/speed/methods.json"))
    options = parser.parse_args()
    take_times(options)


@torch.inference_mode()
def take_times(options: argparse.Namespace) -> None:
    """All rows in turns, in half precision on a GPU."""
    device, cache = options.device, Cache(options.cache)
    cells = {row: cell for given in options.rows for row, cell in cells_of(given, options.assets).items()}
    first = next(iter(cells.values()))
    table = open_place(first.place)
    bare = classifier_of(first, cache, table)
    rows = table.split(first.config["split"])[: options.batch]
    orbit = OrbitSpec(**next(iter(first.config["orbits"].values()))).build()
    images = moved_photos(table, rows, preprocessing_of(bare), orbit, device)
    ways: dict[str, Any] = {}
    trained = {}
    for row, cell in cells.items():
        config = cell.config
        model = build_method(config, bare).eval()
        folder = cache.named("training", config["trained"] or "")
        trained[row] = config["recipe"]["classifier"] == "frozen" and (folder / WEIGHTS).exists()
        if trained[row]:  # those of others hold a classifier of their own
            load_weights(model, folder, OF_CLASSIFIER)
        model = model.to(device)
        if isinstance(model, TokenSTN):
            enough = (cache.result(cell) or {}).get("enough")
            model.auto = model.auto if enough is None else AutoViews(**enough["auto"])
            model.record()
        views = 1 if model.bare else config["views"]
        ways[row] = partial(model, images, views=views, sampling=config["sampling"])
    if find_spec("equiadapt") is not None:
        shape = (images.shape[1], images.shape[2], images.shape[3])
        ways["equiadapt"] = partial(
            Canonicalized(bare.classifier, shape, device, preprocessing_of(bare)).eval(), images
        )
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        took, _ = in_turns(ways, device, options.seconds)
    found = {}
    for row, milliseconds in took.items():
        ratio, each, known = milliseconds / took[next(iter(took))], milliseconds / options.batch, trained.get(row)
        found[row] = {"ms": round(each, 4), "ratio": round(ratio, 3), "trained": known}
        print(f"{row:24} {each:8.4f} ms {ratio:7.3f}×  {'trained' if known else ''}", flush=True)
    about = {"precision": "bfloat16" if device == "cuda" else "float32", "batch": options.batch, "data": table.name}
    write(options.out, device, {**about, "rows": found})


def cells_of(given: str, assets: str) -> dict[str, Task]:
    """The cells of EXPERIMENT:ROW,ROW…, with its first seed."""
    experiment, rows = given.split(":")
    read = read_experiment(experiment, methods=tuple(rows.split(",")))
    return {row: cell_of(read, row, assets, read.seeds[0]) for row in rows.split(",")}


if __name__ == "__main__":
    main()
