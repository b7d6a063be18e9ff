"""Accuracy on turned images: our method with its shortcuts, and others, on the same classifier.

    python benchmarks/shortcuts.py mnist --assets .assets --out runs/shortcuts

Trains a classifier, the rectifiers and an STN in front of it, judges all of them, and writes what is known so far to
results/speed/NAME_shortcuts.json. What each costs is measured by ``cost_of_methods.py``. EU-Moths: trained on folds 2
and 3, judged on fold 1, which is where things are chosen; MNIST: on 2,000 test digits; digits: on the 1,000 test digits
inside the package.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from equiadapt_peer import STEPS, judged_alone, trained_peer
from timing import write
from torch import Tensor

import tokenstn
from tokenstn import Preprocessing, TokenSTN
from tokenstn.baselines import create
from tokenstn.data import ImageTable, open_images
from tokenstn.evaluation.evaluate import evaluate
from tokenstn.evaluation.photos import PhotoOrbit, load_photos
from tokenstn.geometry import Group, OneSidedScale, Shear, group
from tokenstn.models.pretrained import from_weights
from tokenstn.models.reading import usual_reading
from tokenstn.training.engine import Machine, train_classifier, train_rectifier, train_rival
from tokenstn.training.recipes import CLASSIFIER, FINE_TUNED, RECIPES, Recipe
from tokenstn.training.small_vit import small_vit

VIEWS = (1, 2, 4, 10)


@dataclass(frozen=True)
class Setup:
    """images, the classifier and its recipe, and the rectifiers: name → what differs from the default."""

    table: ImageTable
    split: str
    orbit: Group
    classifier: Callable[[], TokenSTN]
    fine: Recipe
    primitives: tuple[str, ...]
    rectifiers: dict[str, dict[str, Any]]
    recipe: Recipe
    moves: tuple[Any, ...]


def eu_moths(assets: Path) -> Setup:
    """Fold 0 is not opened: it takes the place of nothing here."""
    table = open_images(assets / "eu_moths_196.zip", test_fold=0, val_fold=1)
    prepared = Preprocessing((196, 196), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

    def classifier() -> TokenSTN:
        network = from_weights(
            "vit_small_patch14_dinov2", assets / "vit_s14.safetensors", len(table.classes), 196, drop_path_rate=0.1
        )
        return TokenSTN(network, primitives=(), classes=table.classes, preprocessing=prepared)

    return Setup(
        table, "val", group("rotoscale", 8, scales=3), classifier, replace(FINE_TUNED, epochs=40, mirror=True),
        ("rotation", "scale"),
        {
            "tokenstn": {},
            "6 layers at full resolution": {"shared": 6, "localization_size": 1.0, "localization_tokens": 14},
            "6 layers at half resolution": {"shared": 6, "localization_size": 0.5, "localization_tokens": 14},
        },
        replace(RECIPES["default"], epochs=150, batch_size=128), ("rotation", OneSidedScale(), Shear(bound=0.15)),
    )  # fmt: skip


def mnist(assets: Path) -> Setup:
    """The digits of the RotMNIST-style experiment."""
    table = open_images(assets / "mnist.npz")
    splits = {**table.splits, "test": table.splits["test"][:2000]}
    table = replace(table, splits=splits)
    shape = {"embed_dim": 256, "depth": 8, "num_heads": 4, "patch_size": 4}
    return Setup(
        table, "test", group("rotation", 16), lambda: small_vit(table, **shape),
        replace(CLASSIFIER, epochs=20, batch_size=256, rate=1e-3), ("rotation",),
        {"tokenstn": {}, "half resolution": {"localization_size": 0.5}, "4 shared layers": {"shared": 4}},
        replace(RECIPES["default"], epochs=20, batch_size=512), ("rotation",),
    )  # fmt: skip


def digits(_: Path) -> Setup:
    """The digits inside the package, as in ``experiments/digits.yaml``: a CPU is enough."""
    table = open_images("mnist-mini")
    return Setup(
        table, "test", group("rotation", 16), lambda: small_vit(table), replace(CLASSIFIER, epochs=12), ("rotation",),
        {"tokenstn": {}, "4 shared layers": {"shared": 4}}, replace(RECIPES["default"], epochs=34, batch_size=64),
        ("rotation",),
    )  # fmt: skip


SETUPS = {"eu-moths": eu_moths, "mnist": mnist, "digits": digits}


def main() -> None:
    """Parse, train, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=tuple(SETUPS))
    parser.add_argument("--assets", type=Path, default=Path(".assets"))
    parser.add_argument("--out", type=Path, default=Path("runs/shortcuts"))
    parser.add_argument("--results", type=Path, default=Path("results/speed"))
    parser.add_argument("--epochs", type=float, default=1.0, help="a share of them, to try it out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    train(SETUPS[options.name](options.assets), options.out / options.name, options)


def train(setup: Setup, folder: Path, options: argparse.Namespace) -> None:
    """Train everything and judge everything; models are kept in the folder, accuracies among the results."""
    machine, shortened = machine_of(options.device), partial(shortened_by, options.epochs)
    torch.manual_seed(0)
    bare = setup.classifier()
    train_classifier(bare, setup.table, shortened(setup.fine), folder / "training" / "classifier", machine=machine)
    bare.save_pretrained(folder / "classifier")
    found: dict[str, Any] = {}
    keep = partial(kept, found, setup, options)
    for name, different in setup.rectifiers.items():
        torch.manual_seed(0)
        model = TokenSTN(
            bare.classifier, setup.primitives, **reading(bare) | different,
            classes=setup.table.classes, preprocessing=bare.preprocessing,
        )  # fmt: skip
        out = folder / "training" / name.replace(" ", "-")
        train_rectifier(model, setup.table, shortened(setup.recipe), out, labelled=False, machine=machine)
        model.save_pretrained(folder / name.replace(" ", "-"))
        judge = partial(judged, setup, model.to(options.device), options.device)
        if name == "tokenstn":
            found |= {f"{views} views" if views > 1 else "1 view": judge(views) for views in VIEWS}
            found["auto, float32"] = judge("auto", half=False)
        found["auto" if name == "tokenstn" else name] = judge("auto")
        keep()
    judge_rival = partial(judged, setup, device=options.device)
    for name in ("vanilla", "tta", "its"):
        found[name] = judge_rival(rival(name, bare, setup).to(options.device))
    stn = rival("stn", bare, setup)
    joint = replace(shortened(setup.fine), classifier="joint", rate=1e-4, head_rate=None, mirror=False)
    train_rival(stn, setup.table, joint, folder / "training" / "stn", augmentation=setup.moves, machine=machine)
    found["stn"] = judge_rival(stn.to(options.device))
    keep()
    if find_spec("equiadapt") is not None:
        before, steps = tokenstn.load(folder / "classifier"), max(1, round(options.epochs * STEPS))
        peer = trained_peer(before, setup.table, options.device, steps)  # the STN has changed the classifier
        found["equiadapt"] = judged_alone(peer, setup.table, setup.split, setup.orbit, options.device)
        keep()


def kept(found: dict[str, Any], setup: Setup, options: argparse.Namespace) -> None:
    """Write down what was found so far."""
    images = len(setup.table.split(setup.split))
    about = {"data": f"{setup.table.name}, {images:,} images", "orbit": in_words(setup.orbit), "seed": 0}
    path = options.results / f"{options.name.replace('-', '_')}_shortcuts.json"
    write(path, options.device, {**about, "ways": found})


def in_words(orbit: Group) -> str:
    """How many rotations and scales an orbit has."""
    rotations, scales = (len(set(values.tolist())) for values in (orbit.poses.rotation, orbit.poses.scale))
    return f"{rotations} rotations" + (f" × {scales} scales" if scales > 1 else "")


def reading(bare: TokenSTN) -> dict[str, Any]:
    """What ``tokenstn train`` lets a localizer read."""
    return asdict(usual_reading(bare.classifier, bare.backbone.input_size))


def machine_of(device: str) -> Machine:
    """One device, in half precision where that is a GPU."""
    gpu = device == "cuda"
    return Machine("gpu" if gpu else "cpu", devices=1, precision="bf16-mixed" if gpu else "32-true", progress=False)


def shortened_by(share: float, recipe: Recipe) -> Recipe:
    """A recipe with a share of its epochs, one at least."""
    return replace(recipe, epochs=max(1, round(share * recipe.epochs)))


def rival(name: str, bare: TokenSTN, setup: Setup) -> Any:
    """A rival in front of the classifier."""
    options = {"primitives": setup.primitives, "points": 8} if name == "its" and len(setup.primitives) == 1 else {}
    return create(name, bare.classifier, preprocessing=bare.preprocessing, classes=bare.classes, **options)


def judged(
    setup: Setup, model: Any, device: str, views: int | str | None = None, half: bool = True
) -> dict[str, float | None]:
    """Accuracy as they come and over the orbit, in percent, and the seconds that it took."""
    start = time.perf_counter()
    with torch.autocast(device, torch.bfloat16, enabled=half and device == "cuda"):
        found = evaluate(
            model.eval(), setup.table, setup.split, group=setup.orbit, views=views if views is not None else "auto",
            batch_size=276, controls=False, cost=False, draws=2, examples=0,
        ).evaluation  # fmt: skip
    answer = found.rectified or found.bare
    row = {"upright": 100 * answer.upright, "orbit": 100 * answer.mean, "seconds": time.perf_counter() - start}
    print(type(model).__name__, views, {name: round(value, 2) for name, value in row.items()}, flush=True)
    return row


def moved_photos(table: ImageTable, rows: Tensor, how: Preprocessing, orbit: Group, device: str) -> Tensor:
    """Photos ``(n, C, h, w)``, each at a pose of its own, so that "auto" has its mixture of easy and hard ones."""
    every = PhotoOrbit(next(iter(load_photos(table, rows, how, len(rows)))), orbit, how, device=device)
    images = every[0].clone()
    for element in range(1, min(len(orbit), len(rows))):
        images[element :: len(orbit)] = every[element][element :: len(orbit)]
    return images


if __name__ == "__main__":
    main()
