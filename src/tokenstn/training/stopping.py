"""A run that ends before its time: told to by SIGTERM or Ctrl-C, or because one of its processes has died.

With a signal the step is finished, a checkpoint written, and the run ends with the exit code of the signal.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher

from tokenstn.system.processes import Watch
from tokenstn.system.stopping import Stopped, StopRequest
from tokenstn.training.keeping import KeepLast


class StopWithCheckpoint(lightning.Callback):
    """Ends a run where it can go on from: after a step of the optimizer, or after an epoch with its validation.

    All processes of a run stop after the same step, whichever of them got the signal.
    """

    def __init__(self, request: StopRequest, keep: KeepLast, checkpoint: Path) -> None:
        self._request, self._keep, self._checkpoint = request, keep, checkpoint
        self._stopping = False

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self._request.listen()  # Lightning has taken SIGTERM for itself, and would end with exit code 0
        if trainer.received_sigterm and self._request.asked is None:
            self._request.asked = signal.SIGTERM

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        done = batch_idx + 1
        # after the last batch comes the validation, and after that the checkpoint of the epoch
        in_between = done < trainer.num_training_batches and done % trainer.accumulate_grad_batches == 0
        if in_between and self._asked(trainer):
            trainer.save_checkpoint(self._checkpoint)
            self.stop(trainer)

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self._stopping = self._asked(trainer)
        if self._stopping:
            self._keep.written = -math.inf  # its checkpoint is due, and comes after this

    def on_train_epoch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        if self._stopping:
            self.stop(trainer)

    def stop(self, trainer: lightning.Trainer) -> None:
        """Leave; only the first process says so, and has the exit code."""
        number = self._request.asked or signal.SIGTERM
        stopped = stopped_by(number, self._checkpoint)
        if not trainer.is_global_zero:
            stopped.code = 0
        raise stopped

    def _asked(self, trainer: lightning.Trainer) -> bool:
        asked = self._request.asked is not None
        return asked if trainer.world_size == 1 else trainer.strategy.reduce_boolean_decision(asked, all=False)


def stopped_by(number: int, checkpoint: Path) -> Stopped:
    """A run that ends because of a signal, with what it leaves in words."""
    where = f"{checkpoint} has all that was done: go on with --resume=true"
    left = where if checkpoint.is_file() else "no epoch was finished, and nothing is kept"
    return Stopped(number, f"stopped by {signal.Signals(number).name}; {left}")


class Company(lightning.Callback):
    """While training: when a process of the run dies, the others end with a message."""

    _watch: Watch | None = None

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        launcher = trainer.strategy.launcher
        # other launchers, such as torchrun or a cluster's, look after their processes themselves
        if trainer.world_size > 1 and isinstance(launcher, _SubprocessScriptLauncher):
            says = "the run is over; go on with --resume=true from the last checkpoint"
            self._watch = Watch(launcher.procs, says).__enter__()

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        self._end(type(exception))

    def teardown(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        self._end(None)

    def _end(self, kind: type[BaseException] | None) -> None:
        if self._watch is not None:
            self._watch.__exit__(kind)


@contextmanager
def stopped_at_once(request: StopRequest, last: Path) -> Iterator[None]:
    """Lightning ends with exit codes of its own when it is interrupted; they become those of the signal."""
    try:
        yield
    except SystemExit as error:
        if isinstance(error, Stopped):
            raise
        raise stopped_by(request.asked or signal.SIGTERM, last) from error
