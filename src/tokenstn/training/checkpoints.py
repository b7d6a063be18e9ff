"""Checkpoints that are there as a whole, hold nothing but numbers, and know when a run was over."""

from __future__ import annotations

import io
from os import PathLike
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import EarlyStopping
from torch import Tensor

from tokenstn.system.files import write_bytes


class WholeCheckpoints(TorchCheckpointIO):
    """Writes beside the file and renames, in the same folder, and waits for the disk.

    Lightning's own goes through the system's temporary folder: on another disk than the run that is a copy, which a
    kill leaves half. Weights and moments that are not finite are refused, so that what there is can be gone on from.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | PathLike[str], storage_options: Any = None
    ) -> None:
        """Write all of it, or leave what is there."""
        wrong = [name for name, values in _tensors(checkpoint) if not bool(torch.isfinite(values).all())]
        if wrong:
            raise ValueError(
                f"the weights are not finite any more ({wrong[0]}), and no checkpoint is written: the last one, in "
                f"{Path(path).parent}, is as it was; start again with a lower --rate, or in --precision 32-true"
            )
        content = io.BytesIO()
        torch.save(checkpoint, content)
        write_bytes(Path(path), content.getvalue())

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = True) -> dict[str, Any]:
        """Read it, and run nothing that it holds, whoever wrote it and whatever is asked for."""
        try:
            return super().load_checkpoint(path, map_location, weights_only=True)
        except FileNotFoundError:
            raise
        except Exception as error:  # bytes that are no checkpoint can fail in any way
            raise ValueError(
                f"{path} is not a checkpoint of this run ({type(error).__name__}), and nothing in it is run: remove it "
                "and begin anew"
            ) from error


class Patience(EarlyStopping):
    """Early stopping that stays stopped: a run that was over before it was killed does not train on."""

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        if self.wait_count >= self.patience:
            trainer.should_stop = True


def _tensors(checkpoint: dict[str, Any]) -> list[tuple[str, Tensor]]:
    """Floating-point weights, and what the optimizer keeps of them, by name."""
    found = list(checkpoint["state_dict"].items())
    for optimizer in checkpoint.get("optimizer_states", ()):
        for place, state in optimizer["state"].items():
            found += [(f"{name} of parameter {place}", value) for name, value in state.items()]
    return [(name, value) for name, value in found if isinstance(value, Tensor) and value.is_floating_point()]
