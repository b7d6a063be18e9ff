"""Training with Lightning: loaders, trainer, logs, checkpoints and resumption.

A run folder holds ``checkpoints/`` (the last epoch, and with patience the best) and ``logs/`` (CSV and TensorBoard). A
run that was killed goes on from where it was written down last, one that was told to stop from its last step; on the
CPU both end with the same weights, to the bit, as one that was not stopped.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch import Callback, loggers
from lightning.pytorch.callbacks import ModelCheckpoint, RichProgressBar

from tokenstn.baselines import Rival
from tokenstn.data import ImageTable
from tokenstn.evaluation.collapse import PrimitiveHealth
from tokenstn.geometry import Primitive, as_primitives
from tokenstn.models import TokenSTN
from tokenstn.models.preprocessing import preprocessing_of
from tokenstn.system.processes import reading_processes
from tokenstn.system.stopping import StopRequest
from tokenstn.training.checkpoints import Patience, WholeCheckpoints
from tokenstn.training.classifier_training import ClassifierTraining
from tokenstn.training.epoch_log import EpochLog
from tokenstn.training.finite import FiniteSteps, OnNonfinite
from tokenstn.training.freezing import FrozenReport, freeze_all, freeze_first_half
from tokenstn.training.graphs import PlayBack
from tokenstn.training.keeping import KeepLast
from tokenstn.training.loading import OnBad, load
from tokenstn.training.monitor import CollapseMonitor
from tokenstn.training.recipes import Recipe
from tokenstn.training.rectifier_training import RectifierTraining
from tokenstn.training.rival import RivalTraining
from tokenstn.training.stopping import Company, StopWithCheckpoint, stopped_at_once, stopped_by


@dataclass(frozen=True)
class Machine:
    """Where and how a run happens; most of it goes to Lightning's Trainer as it is.

    accumulate: batches for one step of the optimizer. compile: whether torch compiles the networks. logger: the name of
    one more of Lightning's loggers, such as WandbLogger. workers: processes that read images. on_bad: ``raise`` an
    error for an image that cannot be read, or ``skip`` it. on_nonfinite: ``stop`` where a loss or a gradient is not
    finite, ``retry`` that step in float32, or ``skip`` it. validations: how often a run is validated at least, where it
    has so many epochs.
    """

    accelerator: str = "auto"
    devices: int | str = "auto"
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    accumulate: int = 1
    compile: bool = False
    logger: str | None = None
    workers: int = 0
    on_bad: OnBad = "raise"
    progress: bool = True
    on_nonfinite: OnNonfinite = "stop"
    validations: int = 25

    def __post_init__(self) -> None:
        if self.accumulate < 1 or self.workers < 0 or self.validations < 1:
            raise ValueError(
                f"accumulate={self.accumulate} and validations={self.validations} are at least 1, "
                f"workers={self.workers} at least 0"
            )
        if self.logger is not None and self.logger not in loggers.__all__:
            raise ValueError(f"unknown logger {self.logger!r}; Lightning has {', '.join(loggers.__all__)}")


@dataclass(frozen=True)
class Trained:
    """What is left of a run beside the weights: the last figures, what was frozen, and the state of each primitive.

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
    """Train the rectifier of a model; its classifier is frozen as the recipe says."""
    freeze = freeze_all if recipe.classifier == "frozen" else freeze_first_half
    frozen = freeze(model.classifier)
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
    frozen = (freeze_all if recipe.classifier == "frozen" else freeze_first_half)(model.classifier)
    moves = as_primitives(augmentation)
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
        kept = ModelCheckpoint(checkpoints, "best", monitor=best, mode=mode, enable_version_counter=False)
        callbacks += [kept, Patience(best, patience=recipe.patience, mode=mode)]
    if not machine.compile and not getattr(training, "num_workers", 0):  # what reads beside may not disturb a recording
        callbacks.append(PlayBack(module.model))
    callbacks.append(keep)  # at the end: what it writes holds what the others know
    module.train()  # Lightning leaves the modes as it finds them
    with _without_chatter(), _compiled(module if machine.compile else None), reading_processes(), request:
        trainer = _trainer(recipe, out, machine, callbacks)
        with stopped_at_once(request, last):
            trainer.fit(module, training, validation, ckpt_path=str(last) if resume else None, weights_only=True)
    if request.asked is not None:  # in the last epoch
        raise stopped_by(request.asked, last)
    if recipe.patience is not None:
        best_weights = torch.load(checkpoints / "best.ckpt", map_location="cpu", weights_only=True)
        module.frozen.put_back(best_weights)
        module.load_state_dict(best_weights["state_dict"])
    if trainer.global_step == 0:
        raise ValueError(
            f"{len(table.split('train'))} training images make no batch of {recipe.batch_size} for each of "
            f"{trainer.world_size} processes: take a smaller --batch_size, or fewer --devices"
        )
    figures = {name: value for name, value in module.last.items() if name not in ("epoch", "step")}
    return Trained(
        figures, int(module.last.get("epoch", trainer.current_epoch - 1)) + 1, module.unreadable, len(finite.found)
    )


class _Progress(RichProgressBar):
    """Lightning's bar without the number of the logger's version."""

    def get_metrics(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> dict[str, Any]:
        return {name: value for name, value in super().get_metrics(trainer, pl_module).items() if name != "v_num"}


def _trainer(recipe: Recipe, out: Path, machine: Machine, callbacks: list[Callback]) -> lightning.Trainer:
    return lightning.Trainer(
        accelerator=machine.accelerator,
        devices=machine.devices,
        num_nodes=machine.num_nodes,
        strategy=machine.strategy,
        precision=machine.precision,  # pyright: ignore[reportArgumentType]
        accumulate_grad_batches=machine.accumulate,
        max_epochs=recipe.epochs,
        gradient_clip_val=recipe.clip,
        default_root_dir=out,
        logger=_loggers(out, machine.logger),
        callbacks=[*callbacks, *([_Progress()] if machine.progress else [])],
        use_distributed_sampler=False,  # the order of images is our own, and knows about processes
        num_sanity_val_steps=0,
        enable_model_summary=False,
        enable_progress_bar=machine.progress,
        log_every_n_steps=1,
        check_val_every_n_epoch=_between_validations(recipe, machine.validations),
        # equal to the bit is promised on the CPU; on CUDA this mode fills every fresh tensor
        plugins=[WholeCheckpoints()],
        deterministic="warn" if machine.accelerator == "cpu" or not torch.cuda.is_available() else False,
    )


def _between_validations(recipe: Recipe, validations: int) -> int:
    """Epochs from one to the next: many short epochs are not all validated, but the last one is; patience needs all."""
    most = recipe.epochs // validations if recipe.patience is None else 1
    return max(number for number in range(1, max(1, most) + 1) if recipe.epochs % number == 0)


def _loggers(out: Path, another: str | None) -> list[loggers.Logger]:
    """CSV and TensorBoard always, and one more by its name in Lightning."""
    kept: list[loggers.Logger] = [
        EpochLog(out / "logs" / "csv"),
        loggers.TensorBoardLogger(out, name="logs", version="tensorboard"),
    ]
    if another is not None:
        kind = getattr(loggers, another)
        takes_folder = "save_dir" in inspect.signature(kind).parameters
        kept.append(kind(save_dir=str(out / "logs")) if takes_folder else kind())
    return kept


@contextmanager
def _compiled(module: ClassifierTraining | RectifierTraining | RivalTraining | None) -> Iterator[None]:
    """The networks of a module compiled in place while it trains, and as they were afterwards."""
    networks = [] if module is None else [module.model.classifier, module.model.localizer]
    networks = [network for network in networks if network is not None]
    for network in networks:
        network.compile()
    try:
        yield
    finally:
        for network in networks:
            network._compiled_call_impl = None  # torch has no other way back


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Leave out what Lightning says of things that were decided here: workers, devices, its own products."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not have many workers.*")
        warnings.filterwarnings("ignore", ".*in eval mode at the start of training.*")  # what is frozen
        warnings.filterwarnings("ignore", ".*LeafSpec.*", FutureWarning)  # Lightning's own, under a newer torch
        warnings.filterwarnings("ignore", ".*training_step` returned `None`.*")  # no image of a batch could be read
        warnings.filterwarnings("ignore", ".*exists and is not empty.*")  # going on in the same folder is meant
        warnings.filterwarnings("ignore", ".*have no `val_dataloader`.*")  # a table may have no val split
        warnings.filterwarnings("ignore", ".*AccumulateGrad node's stream.*")  # recorded on another one
        warnings.filterwarnings("ignore", ".*sync_dist=True.*")  # the first process speaks for all
        try:
            yield
        finally:
            logger.setLevel(level)
