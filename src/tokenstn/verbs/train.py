"""``tokenstn train``: from images and a classifier to a robust one, in one run folder."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class TrainResult:
    """Where the run is, and what it measured on its validation images (None without labels)."""

    out: Path
    metrics: dict[str, Any]


def train(
    images: str,
    classifier: str | None = None,
    out: str = "runs/train",
    recipe: str = "default",
    primitives: list[str] | None = None,
    upright: Literal["auto", "yes", "no"] = "auto",
    labels: bool = True,
    pretrained: bool = True,
    shared: int | str = 2,
    localization_size: int | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    rate: float | None = None,
    classifier_epochs: int = 40,
    seed: int = 0,
    accelerator: str = "auto",
    devices: int | str = "auto",
    num_nodes: int = 1,
    strategy: str = "auto",
    precision: str = "32-true",
    workers: int = 0,
    resume: bool = False,
    progress: bool = True,
) -> TrainResult:
    """Train a rectifier for a classifier; the classifier stays as it is, or is trained first when it does not fit.

    Example: tokenstn train photos/ --classifier my-model/ --out runs/photos

    Args:
        images: a folder, a manifest (.csv, .parquet), a data file (.npz, .zip, .amat), or a name such as digits.
        classifier: a model folder, or a timm name. Left out, a small ViT is trained on images of up to 64 pixels.
        out: the run folder: config.yaml, model/, metrics.json, checkpoints/, logs/ and training_images.png.
        recipe: default; or the paper's: paper, paper-rotmnist, paper-medmnist.
        primitives: what may be corrected: rotation, scale, shear, translation, reflection.
        upright: whether the objects in the images stand upright; auto asks the classifier.
        labels: use the labels of the images where the recipe can; without them only the classifier must be trained.
        pretrained: fetch the weights of a timm name.
        shared: how many layers the localizer shares with the classifier, or the name of one.
        localization_size: shorter side at which the localizer reads; half the input when left out, all of it for images
            of up to 64 pixels.
        epochs: of the rectifier; the recipe's when left out.
        batch_size: the recipe's when left out.
        rate: peak learning rate; the recipe's when left out.
        classifier_epochs: of the classifier, where it is trained first.
        seed: of everything that is drawn.
        accelerator: cpu, gpu or auto, as Lightning takes it.
        devices: how many, as Lightning takes it.
        num_nodes: machines in a cluster.
        strategy: Lightning's, such as ddp.
        precision: Lightning's, such as bf16-mixed.
        workers: processes that read images.
        resume: go on with the run in the folder from its last finished epoch.
        progress: show progress bars.
    """
    arguments = dict(locals())

    import torch
    import yaml
    from rich.console import Console

    from tokenstn.data import open_images, split_table
    from tokenstn.training.engine import Machine, train_rectifier
    from tokenstn.training.recipes import recipe as recipe_named
    from tokenstn.verbs import train_steps as steps
    from tokenstn.verbs.classifiers import find_classifier

    console, start = Console(), time.monotonic()
    settings = recipe_named(recipe)
    changes = {"epochs": epochs, "batch_size": batch_size, "rate": rate}
    settings = replace(settings, **{name: value for name, value in changes.items() if value is not None})
    machine = Machine(accelerator, devices, num_nodes, strategy, precision, workers=workers, progress=progress)
    folder = Path(out)
    if (folder / "metrics.json").exists() and not resume:
        raise FileExistsError(f"{folder} holds a finished run; choose another --out, or remove it")
    if resume and not folder.is_dir():
        raise FileNotFoundError(f"there is no run in {folder} to go on with; start it without --resume")
    torch.manual_seed(seed)
    table = split_table(open_images(images), seed=seed)
    bare, ready = find_classifier(classifier, table, pretrained)
    console.print(steps.understood(table, bare, ready))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(arguments, sort_keys=False), encoding="utf-8")
    if not ready:
        steps.train_classifier_first(bare, table, folder / "classifier", classifier_epochs, seed, machine, resume)
    model = steps.with_rectifier(bare, settings, primitives, shared, localization_size)
    stands = steps.checks_before(upright, model, table, folder, console)
    figures, frozen = train_rectifier(
        model, table, settings, folder, seed=seed, upright=stands, labelled=labels and bool(table.classes),
        machine=machine, resume=resume and (folder / "checkpoints" / "last.ckpt").is_file(),
    )  # fmt: skip
    console.print(f"classifier: {frozen}")
    outcome = steps.measure_outcome(model, table) if table.classes and not table.multi_label else None
    metrics = {
        "poses": "absolute" if stands else "relative",
        "outcome": None if outcome is None else asdict(outcome),
        "validation": {name: value for name, value in figures.items() if name.startswith("val/")},
        "frozen_parameters": frozen.frozen_parameters,
        "seconds": round(time.monotonic() - start, 1),
    }
    kept = model
    if outcome is not None:
        console.print(steps.before_and_after(outcome))
        if outcome.harms:
            console.print(
                f"[yellow]the rectifier breaks more answers ({outcome.broken}) than it fixes ({outcome.fixed}): "
                f"{folder / 'model'} is the bare classifier, {folder / 'rectified'} the rectified one[/yellow]"
            )
            model.save_pretrained(folder / "rectified")
            kept = bare
    kept.save_pretrained(folder / "model")
    partial = folder / ".metrics.json"
    partial.write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")
    partial.replace(folder / "metrics.json")
    console.print(f"run folder: {folder}   model: {folder / 'model'}   {metrics['seconds']:.0f} s")
    return TrainResult(folder, metrics)
