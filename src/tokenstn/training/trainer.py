"""Lightning's trainer: on which machine a run happens, what it logs, and how often it is validated."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch import Callback, loggers
from lightning.pytorch.callbacks import RichProgressBar

from tokenstn.training.checkpoints import WholeCheckpoints
from tokenstn.training.epoch_log import EpochLog
from tokenstn.training.finite import OnNonfinite
from tokenstn.training.loading import OnBad
from tokenstn.training.module import Training
from tokenstn.training.recipes import Recipe


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


class _Progress(RichProgressBar):
    """Lightning's bar without the number of the logger's version."""

    def get_metrics(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> dict[str, Any]:
        return {name: value for name, value in super().get_metrics(trainer, pl_module).items() if name != "v_num"}


def trainer_of(recipe: Recipe, out: Path, machine: Machine, callbacks: list[Callback]) -> lightning.Trainer:
    """The trainer of a run: what the recipe says of its length, and the machine of everything else."""
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


def processes_of(machine: Machine) -> int:
    """How many processes share a run on it, which "auto" and lists of devices do not say themselves."""
    with without_chatter():
        trainer = lightning.Trainer(
            accelerator=machine.accelerator,
            devices=machine.devices,
            num_nodes=machine.num_nodes,
            strategy=machine.strategy,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
        )
    return trainer.num_devices * trainer.num_nodes


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
def compiled(module: Training | None) -> Iterator[None]:
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
def deterministic_as_before() -> Iterator[None]:
    """What Lightning asks torch for in a run, kernels that give the same to the bit, does not outlast it."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@contextmanager
def without_chatter() -> Iterator[None]:
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
        warnings.filterwarnings("ignore", ".*GPU available but not used.*")  # the CPU was asked for
        warnings.filterwarnings("ignore", ".*AccumulateGrad node's stream.*")  # recorded on another one
        warnings.filterwarnings("ignore", ".*sync_dist=True.*")  # the first process speaks for all
        try:
            yield
        finally:
            logger.setLevel(level)
