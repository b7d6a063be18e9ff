"""A loss or a gradient that is not finite is caught at its step, with the names of the images that it came from."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import lightning
import torch
from torch import Tensor, nn, optim

from tokenstn.system.files import write_text

OnNonfinite = Literal["stop", "retry", "skip"]
MOST_IN_A_ROW = 10  # steps that may be left out one after another
NAMED = 3  # images in a sentence
FILE = "not_finite.csv"
LOOKED_AT_LATER = ("cuda",)  # devices that run ahead of us


@dataclass(frozen=True)
class WrongStep:
    """epoch, step: where. what: loss or gradient. images: their names, of all processes."""

    epoch: int
    step: int
    what: str
    images: list[str]


class FiniteSteps(lightning.Callback):
    """Looks at the loss and the gradients of every step of the optimizer.

    Where they are not finite, ``stop`` ends the run; ``retry`` computes the step again in float32, and ends the run
    where that does not help; ``skip`` leaves the step out: weights, moments and the running statistics of a BatchNorm
    stay as they were, and the schedule goes on. Ten such steps in a row end the run, too. The images of every such step
    are listed in ``not_finite.csv``.

    Gradients are averaged over processes before, so that all of them decide alike. In half precision with a scaled
    loss, gradients that overflow are the scaler's business: it leaves the step out and scales less. With ``stop`` a GPU
    is not made to wait: what it found is looked at one step later, and before anything is validated or kept.

    Args:
        name: of the image in a row of the table.
        out: the run folder.
    """

    def __init__(self, on_nonfinite: OnNonfinite, name: Callable[[int], str], out: Path) -> None:
        if on_nonfinite not in get_args(OnNonfinite):
            raise ValueError(f"on_nonfinite={on_nonfinite!r}: one of {', '.join(get_args(OnNonfinite))}")
        self._policy, self._name, self._path = on_nonfinite, name, out / FILE
        self.found: list[WrongStep] = []
        self._in_a_row = 0
        self._losses: list[Tensor] = []
        self._rows: list[int] = []
        self._batches: list[tuple[Any, int]] = []  # of this step, to be computed again
        self._statistics: dict[Tensor, Tensor] = {}
        self._waiting: Callable[[], object] | None = None

    def state_dict(self) -> dict[str, Any]:
        return {"found": [astuple(step) for step in self.found], "in_a_row": self._in_a_row}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.found = [WrongStep(*step) for step in state_dict["found"]]
        self._in_a_row = state_dict["in_a_row"]

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx % trainer.accumulate_grad_batches == 0:
            self._losses, self._rows, self._batches = [], [], []
            if self._policy != "stop":
                self._statistics = {values: values.clone() for values in _running_statistics(pl_module)}
        self._rows += batch["index"].tolist()
        if self._policy == "retry":
            self._batches.append((batch, batch_idx))

    def on_before_backward(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, loss: Tensor
    ) -> None:
        self._losses.append(loss.detach())

    def on_before_optimizer_step(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, optimizer: optim.Optimizer
    ) -> None:
        if not self._losses:
            return
        seen = _Seen(self._is_finite(trainer, optimizer))
        epoch, step, rows = trainer.current_epoch, trainer.global_step, list(self._rows)
        if self._policy == "stop" and trainer.world_size == 1 and seen.device in LOOKED_AT_LATER:
            self.look()
            self._waiting = lambda: self._judge(trainer, seen, epoch, step, rows)
        elif not self._judge(trainer, seen, epoch, step, rows):
            optimizer.zero_grad(set_to_none=True)  # without gradients nothing moves, neither weights nor moments
            for values, before in self._statistics.items():
                values.copy_(before)
            if self._policy == "retry":
                self._compute_again(trainer, pl_module, optimizer)

    def _compute_again(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, optimizer: optim.Optimizer
    ) -> None:
        """The gradients of this step in float32, from the same images at the same poses; refuses them if not finite."""
        self._losses = []
        with torch.enable_grad(), torch.autocast(module.device.type, enabled=False):
            for batch, number in self._batches:
                module.on_train_batch_start(batch, number)  # the same noise
                loss = module.training_step(batch, number)
                if isinstance(loss, Tensor):  # None where no image of the batch can be learned from
                    (loss / trainer.accumulate_grad_batches).backward()
                    self._losses.append(loss.detach())
        if trainer.world_size > 1:  # what averages gradients by itself listens to the first way back alone
            for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
                if weight.grad is not None:
                    weight.grad = trainer.strategy.reduce(weight.grad, reduce_op="mean")
        if not all(_decided_together(trainer, _Seen(self._is_finite(trainer, optimizer)))):
            raise ValueError(self._sentence(self.found[-1]))
        self._in_a_row = 0

    def look(self) -> None:
        """At the step before, where that has not been done yet."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting()

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self.look()

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self.look()

    def on_save_checkpoint(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self.look()

    def _is_finite(self, trainer: lightning.Trainer, optimizer: optim.Optimizer) -> Tensor:
        """Whether loss and gradient are, ``(2,)`` bool where they lie."""
        loss = torch.stack([value.float() for value in self._losses]).sum()
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        scaled = getattr(trainer.precision_plugin, "scaler", None) is not None
        norm = torch.zeros_like(loss) if scaled else nn.utils.get_total_norm(gradients).to(loss)
        return torch.isfinite(torch.stack((loss, norm)))

    def _judge(self, trainer: lightning.Trainer, seen: _Seen, epoch: int, step: int, rows: list[int]) -> bool:
        """Whether a step was all right; one that was not is noted, and may end the run."""
        fine = _decided_together(trainer, seen)
        if all(fine):
            self._in_a_row = 0
            return True
        self._in_a_row += 1
        self.found.append(WrongStep(epoch, step, "gradient" if fine[0] else "loss", self._names(trainer, rows)))
        if trainer.is_global_zero:
            write_text(self._path, _table(self.found))
        if self._policy == "stop" or self._in_a_row >= MOST_IN_A_ROW:
            raise ValueError(self._sentence(self.found[-1]))
        return False

    def _names(self, trainer: lightning.Trainer, rows: list[int]) -> list[str]:
        mine = [self._name(row) for row in rows]
        if trainer.world_size == 1:
            return mine
        every: list[Any] = [None] * trainer.world_size
        torch.distributed.all_gather_object(every, mine)
        return [name for names in every for name in names]

    def _sentence(self, wrong: WrongStep) -> str:
        more = len(wrong.images) - NAMED
        few = ", ".join(wrong.images[:NAMED]) + (f" and {more} more" if more > 0 else "")
        again = f", for {self._in_a_row} steps in a row" if self._in_a_row > 1 else ""
        again += ", nor is it when computed again in float32" if self._policy == "retry" else ""
        skip = ", or leave such steps out and go on: --on_nonfinite=skip --resume=true" * (self._policy != "skip")
        return (
            f"the {wrong.what} is not finite in step {wrong.step} (epoch {wrong.epoch}){again}, with the images {few} "
            f"(all are listed in {self._path}): start again with a lower --rate or --precision 32-true{skip}"
        )


class _Seen:
    """Values on their way from a device, to be looked at when they are here."""

    def __init__(self, values: Tensor) -> None:
        self.device = values.device.type
        self._here, self._arrived = values, None
        if values.is_cuda:
            self._here = torch.empty_like(values, device="cpu", pin_memory=True).copy_(values, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def values(self) -> list[bool]:
        """The values; waits for them, and for nothing that was asked for later."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._here.tolist()


def _decided_together(trainer: lightning.Trainer, seen: _Seen) -> list[bool]:
    """Whether each value is true in every process."""
    here = seen.values()
    if trainer.world_size == 1:
        return here
    return [trainer.strategy.reduce_boolean_decision(one, all=True) for one in here]


def _running_statistics(module: nn.Module) -> list[Tensor]:
    """What a BatchNorm that is being trained keeps of the images that it saw."""
    norms = (part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.training)
    return [values for norm in norms for values in norm.buffers()]


def _table(steps: list[WrongStep]) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("epoch", "step", "what", "path"))
    lines.writerows((wrong.epoch, wrong.step, wrong.what, name) for wrong in steps for name in wrong.images)
    return text.getvalue()
