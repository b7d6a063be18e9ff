"""What all trainings have in common, as a Lightning module.

Batches are those of ``data.collate``: images that could not be read are missing, B may even be 0. Poses and the noise
of random views are drawn on the CPU as a function of (seed, epoch, image) and applied on the device, so that a run does
not depend on the order of the images, the number of processes, or where it was interrupted. What else is random inside
a network, such as dropout, is a function of (seed, epoch, batch, process).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import lightning
import torch
from torch import Tensor, nn

from tokenstn.data import to_float
from tokenstn.geometry import Pose, warp
from tokenstn.models import Preprocessing
from tokenstn.training.epoch_log import EpochLog
from tokenstn.training.freezing import keep_frozen_parts_in_eval
from tokenstn.training.frozen_state import FrozenState
from tokenstn.training.labels import Batch, labelled_places
from tokenstn.training.loading import EpochLoader
from tokenstn.training.poses import draw_mirrored, with_inverse
from tokenstn.training.recipes import Recipe


class Training(lightning.LightningModule):
    """What all have in common: AdamW, warm-up and cosine, frozen parts in evaluation mode, images to the device."""

    model: Any  # a TokenSTN, or a rival

    def __init__(self, recipe: Recipe, preprocessing: Preprocessing, seed: int) -> None:
        super().__init__()
        self.recipe, self.preprocessing, self.seed = recipe, preprocessing, seed
        self.unreadable: dict[str, str] = {}  # name → reason, of images that were left out
        self.last: dict[str, float] = {}  # the figures of the last finished epoch, with its number and step
        self._sums: dict[str, Tensor] = {}  # of this epoch: names → (2, names), the sum over images and how many
        self._in_epoch = False
        self._place: dict[str, int] | None = None  # where to go on
        self._frozen: FrozenState | None = None

    def train(self, mode: bool = True) -> Training:
        super().train(mode)
        if mode:
            keep_frozen_parts_in_eval(self)
        return self

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """Only what is computed with; indices stay where numbers are drawn from them."""
        held = batch.get("held")
        images = batch["image"].to(device, non_blocking=True) if held is None else held.on(device, batch["places"])
        labels = batch["label"].to(device, non_blocking=True)
        return {**batch, "image": images, "label": labels, "known": labelled_places(batch)}

    @property
    def frozen(self) -> FrozenState:
        """What checkpoints leave out."""
        if self._frozen is None:
            self._frozen = FrozenState(self, self.model.classifier)
        return self._frozen

    def on_fit_start(self) -> None:
        for logger in self.trainer.loggers:
            if isinstance(logger, EpochLog) and self.last:  # a kill may have come after the checkpoint, before the log
                logger.log_metrics(self.last, int(self.last["step"]))

    def on_train_start(self) -> None:
        loader = self.trainer.train_dataloader
        if self._place is not None and isinstance(loader, EpochLoader):
            loader.load_state_dict(self._place)  # Lightning would, but has asked for the length of an epoch before

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        self._in_epoch = True
        place = (self.seed * 1_000_003 + self.current_epoch) * 1_000_003 + batch_idx * self.trainer.world_size
        seed_noise((place + self.global_rank) % 2**63, self.device)

    def note(self, figures: Mapping[str, Tensor], images: int) -> None:
        """Take the figures of a batch of so many images into the means over this epoch, but for those that are none."""
        values, names = torch.stack([value.detach() for value in figures.values()]), " ".join(figures)
        both = images * torch.stack((values, torch.ones_like(values)))
        both = torch.where(torch.isfinite(values), both, 0.0)
        self._sums[names] = self._sums[names].to(both) + both if names in self._sums else both

    def on_train_epoch_end(self) -> None:
        found: dict[str, Tensor] = {}
        for names, sums in self._sums.items():
            for name, both in zip(names.split(), sums.unbind(1), strict=True):
                found[name] = found[name] + both if name in found else both
        for name, (total, count) in found.items():
            if count > 0:
                self.log(name, total / count, prog_bar=name == "train/loss")
        self._sums, self._in_epoch = {}, False

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """What a run that goes on would not know: the epoch so far, and what was found before."""
        if not self._in_epoch:
            known = self.trainer.callback_metrics.items()
            validated = (self.current_epoch + 1) % (self.trainer.check_val_every_n_epoch or 1) == 0
            # Lightning remembers what was found in an earlier epoch
            figures = {name: float(value) for name, value in known if validated or name.startswith("train/")}
            self.last = {**figures, "epoch": self.current_epoch, "step": self.global_step - 1}
        loader = self.trainer.train_dataloader
        checkpoint["so_far"] = {
            "place": loader.state_dict() if isinstance(loader, EpochLoader) else None,
            "sums": self._sums,
            "last": self.last,
            "unreadable": dict(self.unreadable),
        }
        self.frozen.leave_out(checkpoint)
        for logger in self.trainer.loggers:  # or a kill would leave a hole in it
            if isinstance(logger, EpochLog):
                logger.write()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.frozen.put_back(checkpoint)
        so_far = checkpoint.get("so_far", {})
        self._sums, self.last = so_far.get("sums", {}), so_far.get("last", {})
        self.unreadable, self._place = so_far.get("unreadable", {}), so_far.get("place")

    def images(self, batch: Batch) -> Tensor:
        """Normalised images ``(B, C, h, w)`` on the device; those that could not be read are remembered."""
        self.unreadable.update(batch.get("bad", ()))
        return to_float(batch["image"], self.preprocessing.mean, self.preprocessing.std)

    def maybe_mirrored(self, images: Tensor, index: Tensor) -> Tensor:
        """The images ``(B, C, h, w)``; where the recipe says so, half of them left-right: upright ones stay upright."""
        if not self.recipe.mirror:
            return images
        mirrored = draw_mirrored(self.seed, self.current_epoch, index).to(images.device, non_blocking=True)
        return torch.where(mirrored[:, None, None, None], images.flip(-1), images)

    def at_pose(self, images: Tensor, pose: Pose) -> tuple[Tensor, Pose, Tensor]:
        """The images ``(B, C, h, w)`` at a pose, that pose, and where they were read ``(B, 3, 3)``, on their device."""
        pose, read = with_inverse(pose, images.device)
        return warp(images, read, validate=False), pose, read

    def trained_groups(self) -> list[dict[str, Any]]:
        """The parameters that are trained, in groups with a learning rate of their own where it differs.

        A classifier that is trained along has one.
        """
        return self.apart(self.model.classifier.parameters(), self.recipe.along_rate)

    def apart(self, some: Iterable[nn.Parameter], rate: float | None) -> list[dict[str, Any]]:
        """All that is trained, some of it at a rate of its own; in one group where there is no such rate."""
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        known = set() if rate is None else {id(parameter) for parameter in some}
        others = [parameter for parameter in trained if id(parameter) not in known]
        own = [parameter for parameter in trained if id(parameter) in known]
        return [{"params": others}, *([{"params": own, "lr": rate}] if own else [])]

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """By the norm. Lightning would not for an optimizer in one kernel, which unscales gradients where they are."""
        if not optimizer.defaults["fused"]:
            super().configure_gradient_clipping(optimizer, gradient_clip_val, gradient_clip_algorithm)
        elif gradient_clip_val:
            weights = [weight for group in optimizer.param_groups for weight in group["params"]]
            nn.utils.clip_grad_norm_(weights, gradient_clip_val)

    def configure_optimizers(self) -> Any:
        recipe, steps = self.recipe, int(self.trainer.estimated_stepping_batches)
        scaled = getattr(self.trainer.precision_plugin, "scaler", None) is not None
        optimizer = torch.optim.AdamW(
            self.trained_groups(),
            lr=recipe.rate,
            weight_decay=recipe.weight_decay,
            fused=self.device.type == "cuda" and self.trainer.world_size == 1 and not scaled,
        )
        warmup = max(1, round(recipe.warmup * steps))

        def factor(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, steps - warmup))))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def seed_noise(seed: int, device: torch.device) -> None:
    """What is drawn on the CPU and on a device from now on.

    ``torch.manual_seed`` would do the same for every kind of device, and for those that are not in use remember each
    call and where it came from: half a millisecond and some kilobytes in every step.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)  # of the current one, which Lightning has set
    elif device.type != "cpu":
        torch.manual_seed(seed)
