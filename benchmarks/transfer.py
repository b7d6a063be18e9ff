"""How much of a rectifier's gain moves along, when it is put in front of a classifier that it was not trained with.

    python benchmarks/transfer.py digits
    python benchmarks/transfer.py mnist --assets .assets --seeds 0 1 2
    python benchmarks/transfer.py eu-moths --assets .assets --seeds 0 1 2

Two classifiers are trained on the same upright images: on digits a ViT and a ResNet, on EU-Moths two ViTs that differ
in their seeds. Each gets a rectifier of its own; then they are exchanged. A rectifier takes the first layers along that
it learned to read, and nothing is trained again. Writes results/transfer-NAME.json.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch
from shortcuts import SETUPS, Setup, in_words, judged, machine_of, reading, shortened_by
from timing import write

from tokenstn import TokenSTN
from tokenstn.baselines import create
from tokenstn.training.engine import train_classifier, train_rectifier


def main() -> None:
    """Parse, train, exchange, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=tuple(SETUPS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--assets", type=Path, default=Path(".assets"))
    parser.add_argument("--out", type=Path, default=Path("runs/transfer"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--epochs", type=float, default=1.0, help="a share of them, to try it out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    setup = SETUPS[options.name](options.assets)
    seeds = {seed: of_one_seed(setup, seed, options) for seed in options.seeds}
    rows = {
        name: {key: statistics.mean(found[name][key] for found in seeds.values()) for key in ("upright", "orbit")}
        for name in next(iter(seeds.values()))
    }
    for name, row in rows.items():
        print(f"{name:40} {row['upright']:6.2f} upright {row['orbit']:6.2f} orbit")
    moved = {name: gain_that_moves(rows, name) for name in networks(setup)}
    about = {"data": setup.table.name, "orbit": in_words(setup.orbit), "rows": rows, "share_of_the_gain": moved}
    write(options.results / f"transfer-{options.name}.json", options.device, {**about, "by_seed": seeds})


def networks(setup: Setup) -> dict[str, Callable[[], TokenSTN]]:
    """Two classifiers, untrained."""
    if setup.table.name.startswith("mnist"):
        return {"ViT": setup.classifier, "ResNet": lambda: resnet(setup)}
    return {"ViT": setup.classifier, "another ViT": setup.classifier}


def resnet(setup: Setup) -> TokenSTN:
    """A ResNet for images of 28 pixels."""
    like, table = setup.classifier(), setup.table
    network = timm.create_model("resnet14t", num_classes=len(table.classes), in_chans=table.channels)
    assert like.preprocessing is not None
    size = like.preprocessing.size
    return TokenSTN(network, primitives=(), classes=table.classes, input_size=size, preprocessing=like.preprocessing)


def of_one_seed(setup: Setup, seed: int, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Every classifier alone, with its own rectifier and with the other one's: accuracies by name."""
    machine, shortened = machine_of(options.device), partial(shortened_by, options.epochs)
    models: dict[str, TokenSTN] = {}
    for number, (name, make) in enumerate(networks(setup).items()):
        own = 1000 * number + seed
        out = options.out / options.name / str(seed) / name.replace(" ", "-")
        torch.manual_seed(own)
        bare = make()
        train_classifier(bare, setup.table, shortened(setup.fine), out / "classifier", seed=own, machine=machine)
        model = TokenSTN(
            bare.classifier, setup.primitives, classes=bare.classes, preprocessing=bare.preprocessing,
            **reading(bare), input_size=bare.backbone.input_size,
        )  # fmt: skip
        recipe = shortened(setup.recipe)
        train_rectifier(model, setup.table, recipe, out / "rectifier", seed=own, labelled=False, machine=machine)
        models[name] = model
    found = {}
    for name, model in models.items():
        alone = create("vanilla", model.classifier, preprocessing=model.preprocessing, classes=model.classes)
        found[name] = judged(setup, alone.to(options.device), options.device)
        for other, donor in models.items():
            placed = model
            if other != name:
                placed = TokenSTN(
                    model.classifier, rectifier=donor, classes=model.classes, preprocessing=model.preprocessing
                )
            found[f"{name} + rectifier of {other}"] = judged(setup, placed.to(options.device), options.device)
    return found


def gain_that_moves(rows: dict[str, dict[str, float]], name: str) -> float | None:
    """Of what its own rectifier gives a classifier over the orbit, the share that the other one's gives."""
    behind = {way: row["orbit"] - rows[name]["orbit"] for way, row in rows.items() if way.startswith(f"{name} + ")}
    own = behind.pop(f"{name} + rectifier of {name}")
    (other,) = behind.values()
    return other / own if own else None


if __name__ == "__main__":
    main()
