"""Training with Lightning: loaders, trainer, logs, checkpoints and resumption.

A run folder holds ``checkpoints/`` (the last and the best epoch) and ``logs/`` (CSV and TensorBoard). A run that was
stopped goes on from its last finished epoch; on the CPU it then ends with the same weights, to the bit, as one that was
not.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import ModelCheckpoint, RichProgressBar
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from tokenstn.data import ImageTable
from tokenstn.models import Preprocessing, TokenSTN
from tokenstn.training.freezing import FrozenReport, freeze_all, freeze_first_half
from tokenstn.training.loading import load
from tokenstn.training.module import ClassifierTraining, RectifierTraining
from tokenstn.training.recipes import Recipe


@dataclass(frozen=True)
class Machine:
    """Where a run happens. All but workers goes to Lightning's Trainer as it is."""

    accelerator: str = "auto"
    devices: int | str = "auto"
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    accumulate: int = 1
    workers: int = 0
    progress: bool = True


def train_classifier(
    model: TokenSTN,
    table: ImageTable,
    recipe: Recipe,
    out: Path,
    *,
    seed: int = 0,
    machine: Machine = Machine(),
    resume: bool = False,
) -> dict[str, float]:
    """Train the classifier of a bare model on the images as they are; returns the last validation figures."""
    preprocessing = _preprocessing_of(model)
    module = ClassifierTraining(model.classifier, recipe, preprocessing, seed, table.multi_label)
    return _fit(module, table, preprocessing, recipe, out, seed, machine, resume, best="val/upright", mode="max")


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
) -> tuple[dict[str, float], FrozenReport]:
    """Train the rectifier of a model; its classifier is frozen as the recipe says.

    Returns:
        The last validation figures, and what was frozen.
    """
    freeze = freeze_all if recipe.classifier == "frozen" else freeze_first_half
    frozen = freeze(model.classifier)
    preprocessing = _preprocessing_of(model)
    module = RectifierTraining(model, recipe, preprocessing, seed, upright, labelled)
    figures = _fit(module, table, preprocessing, recipe, out, seed, machine, resume, best="val/loss", mode="min")
    model.eval()
    return figures, frozen


def _fit(
    module: lightning.LightningModule,
    table: ImageTable,
    preprocessing: Preprocessing,
    recipe: Recipe,
    out: Path,
    seed: int,
    machine: Machine,
    resume: bool,
    best: str,
    mode: str,
) -> dict[str, float]:
    checkpoints = out / "checkpoints"
    last = checkpoints / "last.ckpt"
    if resume and not last.is_file():
        raise FileNotFoundError(f"{out} has no checkpoint to go on from; start it without resume")
    lightning.seed_everything(seed, verbose=False)
    training, validation = (
        load(table, split, preprocessing, recipe.batch_size, seed, machine.workers) for split in ("train", "val")
    )
    kept = ModelCheckpoint(checkpoints, "best", monitor=best, mode=mode, save_last=True, enable_version_counter=False)
    module.train()  # Lightning leaves the modes as it finds them
    with _without_chatter():
        trainer = _trainer(recipe, out, machine, kept)
        trainer.fit(module, training, validation, ckpt_path=str(last) if resume else None, weights_only=True)
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


class _Progress(RichProgressBar):
    """Lightning's bar without the number of the logger's version."""

    def get_metrics(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> dict[str, Any]:
        return {name: value for name, value in super().get_metrics(trainer, pl_module).items() if name != "v_num"}


def _trainer(recipe: Recipe, out: Path, machine: Machine, checkpoints: ModelCheckpoint) -> lightning.Trainer:
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
        logger=[CSVLogger(out, name="logs", version="csv"), TensorBoardLogger(out, name="logs", version="tensorboard")],
        callbacks=[checkpoints, *([_Progress()] if machine.progress else [])],
        use_distributed_sampler=False,  # the order of images is our own, and knows about processes
        num_sanity_val_steps=0,
        enable_model_summary=False,
        enable_progress_bar=machine.progress,
        log_every_n_steps=1,
        deterministic="warn",
    )


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
        warnings.filterwarnings("ignore", ".*exists and is not empty.*")  # going on in the same folder is meant
        try:
            yield
        finally:
            logger.setLevel(level)


def _preprocessing_of(model: TokenSTN) -> Preprocessing:
    if model.preprocessing is None:
        raise ValueError(
            "the model does not say how its images are prepared: give it preprocessing=Preprocessing(size, mean, std)"
        )
    return model.preprocessing
