"""Training from beginning to end: loaders, callbacks, checkpoints and resumption.

A run folder holds ``checkpoints/`` (the last epoch, and with patience the best) and ``logs/`` (CSV and TensorBoard). A
run that was killed goes on from where it was written down last, one that was told to stop from its last step; on the
CPU both end with the same weights, to the bit, as one that was not stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import lightning
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint

from tokenstn.baselines import Rival
from tokenstn.data import ImageTable
from tokenstn.evaluation.collapse import PrimitiveHealth
from tokenstn.geometry import Primitive, as_primitives
from tokenstn.models import TokenSTN
from tokenstn.models.preprocessing import preprocessing_of
from tokenstn.system.processes import reading_processes
from tokenstn.system.stopping import StopRequest
from tokenstn.training.checkpoints import Patience
from tokenstn.training.classifier_training import ClassifierTraining
from tokenstn.training.finite import FiniteSteps
from tokenstn.training.freezing import (
    FrozenReport,
    freeze_all,
    freeze_first_half,
    gradients_as_before,
    shared_parameters,
)
from tokenstn.training.graphs import PlayBack
from tokenstn.training.keeping import KeepLast
from tokenstn.training.loading import load
from tokenstn.training.monitor import CollapseMonitor
from tokenstn.training.recipes import Recipe
from tokenstn.training.rectifier_training import RectifierTraining
from tokenstn.training.rival import RivalTraining
from tokenstn.training.stopping import Company, StopWithCheckpoint, stopped_at_once, stopped_by
from tokenstn.training.trainer import Machine, compiled, deterministic_as_before, trainer_of, without_chatter


@dataclass(frozen=True)
class Trained:
    """What is left of a run beside the weights: the figures of the epoch that is kept, what was frozen, and the state
    of each primitive.

    epochs: how many were run. unreadable: images that were left out, name → reason. skipped_steps: how many were left
    out or computed again, because their loss or gradient was not finite.
    """

    figures: dict[str, float]
    epochs: int
    unreadable: dict[str, str]
    skipped_steps: int = 0
    frozen: FrozenReport | None = None
    collapse: dict[str, PrimitiveHealth] = field(default_factory=dict)


def train_classifier(
    model: TokenSTN,
    table: ImageTable,
    recipe: Recipe,
    out: Path,
    *,
    augmentation: Iterable[str | Primitive] | None = None,
    seed: int = 0,
    machine: Machine = Machine(),
    resume: bool = False,
) -> Trained:
    """Train the classifier of a bare model on the images as they are, or moved by ``augmentation``."""
    module = classifier_training(model, table, recipe, seed, augmentation)
    return _fit(module, table, out, machine, resume, best="val/upright", mode="max", callbacks=[])


def train_rectifier(
    model: TokenSTN,
    table: ImageTable,
    recipe: Recipe,
    out: Path,
    *,
    seed: int = 0,
    upright: bool = True,
    labelled: bool = True,
    machine: Machine = Machine(),
    resume: bool = False,
) -> Trained:
    """Train the rectifier of a model; its classifier is frozen as the recipe says, and afterwards as it was."""
    with gradients_as_before(model.classifier):
        frozen = _freeze(model, recipe)
        module = RectifierTraining(model, recipe, preprocessing_of(model), seed, upright, labelled)
        monitor = CollapseMonitor()
        trained = _fit(module, table, out, machine, resume, best="val/loss", mode="min", callbacks=[monitor])
    model.eval()
    return replace(trained, frozen=frozen, collapse=monitor.report)


def train_rival(
    model: Rival,
    table: ImageTable,
    recipe: Recipe,
    out: Path,
    *,
    augmentation: Iterable[str | Primitive] = (),
    seed: int = 0,
    upright: bool = True,
    machine: Machine = Machine(),
    resume: bool = False,
) -> Trained:
    """Train a rival by its own loss, on images moved by ``augmentation``; its classifier is frozen as the recipe says.

    Of the recipe, optimisation and smoothing count; the terms are the rival's own.
    """
    moves = as_primitives(augmentation)
    with gradients_as_before(model.classifier):
        frozen = _freeze(model, recipe)
        module = RivalTraining(model, recipe, preprocessing_of(model), seed, moves, upright)
        trained = _fit(module, table, out, machine, resume, best="val/loss", mode="min", callbacks=[])
    model.eval()
    return replace(trained, frozen=frozen)


def classifier_training(
    model: TokenSTN,
    table: ImageTable,
    recipe: Recipe,
    seed: int = 0,
    augmentation: Iterable[str | Primitive] | None = None,
) -> ClassifierTraining:
    """The Lightning module that trains the classifier of a bare model."""
    moves = None if augmentation is None else as_primitives(augmentation)
    return ClassifierTraining(model.classifier, recipe, preprocessing_of(model), seed, table.multi_label, moves)


def _freeze(model: TokenSTN | Rival, recipe: Recipe) -> FrozenReport:
    if recipe.classifier == "frozen":
        return freeze_all(model.classifier)
    return freeze_first_half(model.classifier, shared_parameters(model.backbone))


def _fit(
    module: ClassifierTraining | RectifierTraining | RivalTraining,
    table: ImageTable,
    out: Path,
    machine: Machine,
    resume: bool,
    best: str,
    mode: str,
    callbacks: list[Callback],
) -> Trained:
    checkpoints, recipe = out / "checkpoints", module.recipe
    last = checkpoints / "last.ckpt"
    if resume and not last.is_file():
        raise FileNotFoundError(f"{out} has no checkpoint to go on from; start it without resume")
    lightning.seed_everything(module.seed, verbose=False)
    judged = "val" in table.splits
    if recipe.patience is not None and not judged:
        raise ValueError(f"{table.name} has no val split to judge epochs by: leave patience out, or split the table")
    training, validation = (
        load(
            table,
            split,
            module.preprocessing,
            recipe.batch_size,
            module.seed,
            machine.workers,
            machine.on_bad,
            hold=True,
            progress=machine.progress,
        )
        if split in table.splits or split == "train"
        else None
        for split in ("train", "val")
    )
    request, finite = StopRequest(), FiniteSteps(machine.on_nonfinite, table.item_name, out)
    keep = KeepLast(checkpoints)
    callbacks = [*callbacks, finite, StopWithCheckpoint(request, keep, last), Company()]
    if recipe.patience is not None:
        kept = ModelCheckpoint(
            checkpoints, "best", monitor=best, mode=mode, save_on_train_epoch_end=True, enable_version_counter=False
        )
        callbacks += [kept, Patience(best, patience=recipe.patience, mode=mode)]
    if not machine.compile and not getattr(training, "num_workers", 0):  # what reads beside may not disturb a recording
        callbacks.append(PlayBack(module.model))
    callbacks.append(keep)  # at the end: what it writes holds what the others know
    module.train()  # Lightning leaves the modes as it finds them
    networks = module if machine.compile else None
    with without_chatter(), deterministic_as_before(), compiled(networks), reading_processes(), request:
        trainer = trainer_of(recipe, out, machine, callbacks)
        with stopped_at_once(request, last):
            trainer.fit(module, training, validation, ckpt_path=str(last) if resume else None, weights_only=True)
    if request.asked is not None:  # in the last epoch
        raise stopped_by(request.asked, last)
    found = module.last
    if recipe.patience is not None:
        kept_epoch = torch.load(checkpoints / "best.ckpt", map_location="cpu", weights_only=True)
        module.frozen.put_back(kept_epoch)
        module.load_state_dict(kept_epoch["state_dict"])
        found = kept_epoch["so_far"]["last"]
        for monitor in callbacks:
            if isinstance(monitor, CollapseMonitor):
                monitor.load_state_dict(kept_epoch["callbacks"].get(monitor.state_key, {}))
    if trainer.global_step == 0:
        raise ValueError(
            f"{len(table.split('train'))} training images make no batch of {recipe.batch_size} for each of "
            f"{trainer.world_size} processes: take a smaller --batch_size, or fewer --devices"
        )
    figures = {name: value for name, value in found.items() if name not in ("epoch", "step")}
    return Trained(
        figures, int(module.last.get("epoch", trainer.current_epoch - 1)) + 1, module.unreadable, len(finite.found)
    )
