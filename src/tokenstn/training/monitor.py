"""A callback that watches for collapse: what the rectifier predicts over the validation set, after every epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import lightning
import torch
from torch import Tensor

from tokenstn.evaluation.collapse import PrimitiveHealth, collapse_report
from tokenstn.training.rectifier_training import PosedBatch, RectifierTraining

LOGGED = ("spread", "at_bound", "from_identity", "equivariance_error", "equivariance_failures")


class CollapseMonitor(lightning.Callback):
    """Logs ``collapse/PRIMITIVE_FIGURE`` for each primitive; ``report`` holds those of the last epoch, by primitive."""

    def __init__(self) -> None:
        self.report: dict[str, PrimitiveHealth] = {}
        self._seen: list[PosedBatch] = []

    def state_dict(self) -> dict[str, Any]:
        return {name: asdict(health) for name, health in self.report.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.report = {name: PrimitiveHealth(**health) for name, health in state_dict.items()}

    def on_validation_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, *_: Any, **__: Any
    ) -> None:
        if outputs is not None:
            self._seen.append(outputs["poses"])

    def on_validation_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        assert isinstance(pl_module, RectifierTraining)
        if not self._seen:
            return
        found, moves, moved = (
            joined(getattr(batch, part) for batch in self._seen) for part in ("found", "moves", "found_moved")
        )
        self._seen = []
        self.report = collapse_report(pl_module.model.primitives, found, (moves, moved))
        for name, health in self.report.items():
            figures = {key: getattr(health, key) for key in LOGGED}
            shown = {f"collapse/{name}_{key}": float(value) for key, value in figures.items() if value is not None}
            pl_module.log_dict(shown, sync_dist=True)


def joined(parts: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Batches of values by name, one after the other."""
    parts = list(parts)
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
