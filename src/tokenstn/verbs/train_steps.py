"""The steps of a training run, in the order in which ``tokenstn train`` takes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tokenstn.data import ImageTable, to_float
from tokenstn.models import TokenSTN
from tokenstn.training.engine import Machine, train_classifier
from tokenstn.training.loading import load, prepared
from tokenstn.training.orientation import orientation_predicts_label
from tokenstn.training.outcome import Outcome, measure, value_by_angle
from tokenstn.training.recipes import CLASSIFIER, Recipe
from tokenstn.training.sheet import write_contact_sheet
from tokenstn.training.upright import is_upright
from tokenstn.verbs.classifiers import SMALL_IMAGE

PROBED = 512  # validation images that the checks before training look at, at most


def understood(table: ImageTable, bare: TokenSTN, ready: bool) -> str:
    """The first thing a run prints: what it understood."""
    splits = ", ".join(f"{len(rows):,} {name}" for name, rows in table.splits.items())
    parameters = sum(parameter.numel() for parameter in bare.classifier.parameters())
    height, width = bare.backbone.input_size
    return (
        f"images      {table.name}: {len(table):,} ({splits}), {len(table.classes) or 'no'} classes\n"
        f"classifier  {type(bare.classifier).__name__}, {parameters / 1e6:.1f} M parameters, {height}×{width} px, "
        f"{'as it is' if ready else 'to be trained first'}"
    )


def train_classifier_first(
    bare: TokenSTN, table: ImageTable, out: Path, epochs: int, seed: int, machine: Machine, resume: bool
) -> None:
    """Train the classifier on the images as they are, in a folder of its own inside the run."""
    if not table.classes:
        raise ValueError(f"{table.name} has no labels to train a classifier with: name a trained one with --classifier")
    going_on = resume and (out / "checkpoints" / "last.ckpt").is_file()
    train_classifier(bare, table, replace(CLASSIFIER, epochs=epochs), out, seed=seed, machine=machine, resume=going_on)


def with_rectifier(
    bare: TokenSTN,
    settings: Recipe,
    primitives: list[str] | None,
    shared: int | str,
    localization_size: int | None,
) -> TokenSTN:
    """The bare model with a fresh rectifier in front, as the recipe and the person ask for it."""
    shorter = min(bare.backbone.input_size)
    if localization_size is None and shorter <= SMALL_IMAGE:
        localization_size = shorter  # half of a small image shows too little
    return TokenSTN(
        bare.classifier,
        primitives or settings.primitives or ("rotation", "scale"),
        settings.posterior,
        shared,
        localization_size,
        input_size=bare.backbone.input_size,
        multi_label=bare.multi_label,
        preprocessing=bare.preprocessing,
        classes=bare.classes,
    )


def checks_before(upright: str, model: TokenSTN, table: ImageTable, folder: Path, console: Console) -> bool:
    """Say whether the data count as upright and where orientation is the label; the former is returned.

    A contact sheet of training images goes into the folder, so that a person can check.
    """
    assert model.preprocessing is not None
    sheet = folder / "training_images.png"
    write_contact_sheet(prepared(table, "train", model.preprocessing), sheet)
    probe = next(iter(load(table, "val", model.preprocessing, PROBED)))
    images = to_float(probe["image"], model.preprocessing.mean, model.preprocessing.std)
    single = bool(table.classes) and not table.multi_label
    if single:
        for conflict in orientation_predicts_label(
            lambda x: model.backbone.logits(x).softmax(-1), images, probe["label"], model.primitives, table.classes
        ):
            console.print(f"[yellow]warning     {conflict.sentence}[/yellow]")
    if upright != "auto":
        return upright == "yes"
    verdict = is_upright(value_by_angle(model, images, probe["label"] if single else None), len(images))
    console.print(f"upright     {'yes' if verdict.upright else 'no'}: {verdict.sentence} (see {sheet})")
    return verdict.upright


def measure_outcome(model: TokenSTN, table: ImageTable) -> Outcome:
    """What the rectifier does to the validation images."""
    assert model.preprocessing is not None
    return measure(model, load(table, "val", model.preprocessing, batch_size=128), model.preprocessing)


def before_and_after(outcome: Outcome) -> Table:
    """The outcome as a table for people."""
    shown = Table("on the validation images", "upright", "16 rotations", box=None)
    shown.add_row("before", f"{outcome.bare_upright:.1%}", f"{outcome.bare_rotated:.1%}")
    shown.add_row("after", f"{outcome.upright:.1%}", f"{outcome.rotated:.1%}")
    return shown
