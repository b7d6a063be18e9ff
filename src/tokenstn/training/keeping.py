"""Keep what a run needs to go on: ``last.ckpt``, after an epoch, not more often than pays."""

from __future__ import annotations

import time
from pathlib import Path

import lightning
from lightning.pytorch.callbacks import ModelCheckpoint

SECONDS = 20.0  # between two checkpoints at least: an epoch of a small set takes less than writing one


class KeepLast(ModelCheckpoint):
    """Writes ``last.ckpt`` after the last epoch, and after others when ``SECONDS`` have passed since the one before."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "last", save_on_train_epoch_end=True, enable_version_counter=False)
        self.written = time.monotonic()

    @property
    def state_key(self) -> str:
        return self._generate_state_key(kept="last")  # or it would be taken for the one that keeps the best

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        ended = trainer.should_stop or trainer.current_epoch + 1 == trainer.max_epochs
        due = ended or time.monotonic() - self.written >= SECONDS
        if trainer.strategy.broadcast(due):  # processes write together, so one clock decides
            super().on_train_epoch_end(trainer, pl_module)
            self.written = time.monotonic()
