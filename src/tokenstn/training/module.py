"""The Lightning modules: one trains a classifier on the data as they are, one the rectifier in front of it.

Batches are those of ``data.collate``: images that could not be read are missing, B may even be 0. Poses and the noise
of random views are drawn on the CPU as a function of (seed, epoch, image) and applied on the device, so that a run does
not depend on the order of the images, the number of processes, or where it was interrupted. What else is random inside
a network, such as dropout, is a function of (seed, epoch, batch, process).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import lightning
import torch
from torch import Tensor, nn

from tokenstn.data import to_float
from tokenstn.geometry import Pose, Primitive, Reflection, Rotation, Scale, warp
from tokenstn.models import Preprocessing, TokenSTN
from tokenstn.models.checkpoint import head_name
from tokenstn.posteriors import Posterior
from tokenstn.training.alignment import absolute_alignment, relative_alignment, variance_preserving
from tokenstn.training.corners import vary_corners
from tokenstn.training.epoch_log import EpochLog
from tokenstn.training.freezing import keep_frozen_parts_in_eval
from tokenstn.training.frozen_state import FrozenState
from tokenstn.training.loading import EpochLoader
from tokenstn.training.losses import classification_loss, kl_loss
from tokenstn.training.poses import draw_pose_pairs, draw_poses, image_noise, with_inverse
from tokenstn.training.recipes import Recipe

Batch = dict[str, Any]
JITTER = (Rotation(bound=math.radians(14)), Scale(bound=0.9))  # what an upright classifier sees of other poses


@dataclass(frozen=True)
class PosedBatch:
    """Poses found for images as they come, how they were then moved, and what was found for the moved ones.

    Each ``{primitive: (B,)}``, or ``(B, 2)`` for a translation, on the CPU.
    """

    found: dict[str, Tensor]
    moves: dict[str, Tensor]
    found_moved: dict[str, Tensor]


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
        torch.manual_seed((place + self.global_rank) % 2**63)

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

    def at_pose(self, images: Tensor, pose: Pose) -> tuple[Tensor, Pose, Tensor]:
        """The images ``(B, C, h, w)`` at a pose, that pose, and where they were read ``(B, 3, 3)``, on their device."""
        pose, read = with_inverse(pose, images.device)
        return warp(images, read, validate=False), pose, read

    def trained_groups(self) -> list[dict[str, Any]]:
        """The parameters that are trained, in groups with a learning rate of their own where it differs."""
        return [{"params": [parameter for parameter in self.parameters() if parameter.requires_grad]}]

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


class ClassifierTraining(Training):
    """Train a classifier on the images as they are, give or take a slight turn and zoom.

    Args:
        augmentation: how training images are moved instead; the paper's "Augmented" is trained like this.
    """

    def __init__(
        self,
        classifier: nn.Module,
        recipe: Recipe,
        preprocessing: Preprocessing,
        seed: int,
        multi_label: bool = False,
        augmentation: tuple[Primitive, ...] | None = None,
    ) -> None:
        super().__init__(recipe, preprocessing, seed)
        self.model = TokenSTN(classifier, primitives=(), multi_label=multi_label)
        moves = JITTER if augmentation is None else augmentation
        self.moves = (*moves, Reflection()) if recipe.mirror else moves

    def trained_groups(self) -> list[dict[str, Any]]:
        """The head apart, where the recipe has a rate for it."""
        name = None if self.recipe.head_rate is None else head_name(self.model.classifier)
        if name is None:
            return super().trained_groups()
        head = list(self.model.classifier.get_submodule(name).parameters())
        known = {id(parameter) for parameter in head}
        body = [parameter for parameter in self.parameters() if parameter.requires_grad and id(parameter) not in known]
        return [{"params": body}, {"params": head, "lr": self.recipe.head_rate}]

    def training_step(self, batch: Batch, number: int) -> Tensor | None:
        images = self.images(batch)
        if len(labelled_places(batch)) == 0:
            return None
        loss = self.loss(images, batch)
        self.note({"train/loss": loss}, len(images))
        return loss

    def loss(self, images: Tensor, batch: Batch) -> Tensor:
        """Of the labelled images ``(B, C, h, w)``, turned and zoomed slightly; a scalar."""
        images, labels, index = labelled(batch, images, batch["label"], batch["index"])
        slightly = draw_poses(self.moves, self.seed, self.current_epoch, index)
        # a reflection alone is upside down: half a turn makes it left-right
        half_turn = torch.where(slightly.reflection < 0, math.pi, 0.0)
        slightly = replace(slightly, rotation=slightly.rotation + half_turn)
        images, *_ = self.at_pose(images, slightly)
        model = self.model
        return classification_loss(model(images).probabilities, labels, model.multi_label, self.recipe.label_smoothing)

    def validation_step(self, batch: Batch, number: int) -> None:
        images, labels = labelled(batch, self.images(batch), batch["label"])
        if len(labels) == 0:
            return
        probabilities = self.model(images).probabilities
        loss = classification_loss(probabilities, labels, self.model.multi_label)
        right = share_right(probabilities, labels)
        self.log_dict(
            {"val/loss": loss, "val/upright": right}, prog_bar=True, sync_dist=True, batch_size=len(probabilities)
        )


class RectifierTraining(Training):
    """Train the rectifier of a TokenSTN: images at known poses, and whatever terms the recipe asks for.

    Args:
        model: its classifier frozen or half frozen beforehand, as the recipe says.
        upright: the data show objects upright, so that the applied pose is the pose; otherwise only the difference
            between two poses of an image is known.
        labelled: batches have labels; without them the classification term is left out.
    """

    def __init__(
        self,
        model: TokenSTN,
        recipe: Recipe,
        preprocessing: Preprocessing,
        seed: int,
        upright: bool = True,
        labelled: bool = True,
    ) -> None:
        super().__init__(recipe, preprocessing, seed)
        if recipe.classification and not labelled and not recipe.alignment:
            raise ValueError("this recipe learns from labels alone, and the images have none; use the default recipe")
        self.model, self.upright, self.labelled = model, upright, labelled

    def training_step(self, batch: Batch, number: int) -> Tensor | None:
        images = self.images(batch)
        if len(images) == 0:
            return None
        terms = self.terms(images, batch)
        total = torch.stack(list(terms.values())).sum()
        self.note({f"train/{name}": term for name, term in terms.items()} | {"train/loss": total}, len(images))
        return total

    def loss(self, images: Tensor, batch: Batch) -> Tensor:
        """The sum of the terms, a scalar."""
        return torch.stack(list(self.terms(images, batch).values())).sum()

    def terms(self, images: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Every weighted term of the loss, by name."""
        recipe, model, index = self.recipe, self.model, batch["index"]
        primitives = model.primitives if recipe.apply_poses else ()
        terms: dict[str, Tensor] = {}
        if self.upright or not recipe.alignment:
            posed, pose, read = self.at_pose(images, draw_poses(primitives, self.seed, self.current_epoch, index))
            posteriors = model.localize(self.as_seen(posed, images, read, index))
            aligned = absolute_alignment(posteriors, pose) if recipe.alignment else {}
        else:
            first, second = draw_pose_pairs(primitives, self.seed, self.current_epoch, index)
            posed, pose, read = self.at_pose(images, first)
            other, other_pose, other_read = self.at_pose(images, second)
            posteriors = model.localize(self.as_seen(posed, images, read, index))
            others = model.localize(self.as_seen(other, images, other_read, index, draw=1))
            aligned = relative_alignment(posteriors, others, pose, other_pose)
        for name, term in aligned.items():
            terms[f"alignment_{name}"] = recipe.alignment * term
        if recipe.classification and self.labelled and len(labelled_places(batch)):
            noise = image_noise(self.seed, self.current_epoch, index)
            answer = model.classify(posed, posteriors, recipe.views, recipe.sampling, noise)
            likely, labels = labelled(batch, answer.probabilities, batch["label"])
            loss = classification_loss(likely, labels, model.multi_label, recipe.label_smoothing)
            terms["classification"] = recipe.classification * loss
        if recipe.kl:
            terms["kl"] = recipe.kl * kl_loss(posteriors)
        if recipe.variance:
            terms["variance"] = recipe.variance * variance_preserving(posteriors, pose)
        return terms

    def as_seen(self, posed: Tensor, images: Tensor, read: Tensor, index: Tensor, draw: int = 0) -> Tensor:
        """What the localizer gets to see of images at a pose, ``(B, C, h, w)``: the same, but for the corners."""
        if not self.recipe.vary_corners:
            return posed
        return vary_corners(posed, images, read, self.seed, self.current_epoch, index, draw)

    def validation_step(self, batch: Batch, number: int) -> dict[str, PosedBatch] | None:
        """Every validation image as it comes and at one random pose of its own, the same in every epoch."""
        images = self.images(batch)
        if len(images) == 0:
            return None
        posed, pose, _ = self.at_pose(images, draw_poses(self.model.primitives, self.seed, -1, batch["index"]))
        as_it_comes, moved = self.model.localize(images), self.model.localize(posed)
        measured: dict[str, Tensor] = {}
        if self.labelled and len(labelled_places(batch)):
            answers = {
                "val/posed": self.model.classify(posed, moved),
                "val/upright": self.model.classify(images, as_it_comes),
            }
            measured = {name: share_right(found.probabilities, batch["label"]) for name, found in answers.items()}
        if self.upright:
            aligned = absolute_alignment(moved, pose)
        else:
            unmoved = Pose.of(rotation=torch.zeros_like(pose.rotation))
            aligned = relative_alignment(as_it_comes, moved, unmoved, pose)
        measured["val/loss"] = torch.stack(list(aligned.values())).sum()
        self.log_dict(measured, prog_bar=True, sync_dist=True, batch_size=len(images))
        moves = {name: getattr(pose, name).cpu() for name in moved}
        return {"poses": PosedBatch(best_values(as_it_comes), moves, best_values(moved))}


def share_right(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Share of the labelled images whose most probable class is their label; for several labels, of those right at ½.

    NaN where no image is labelled.
    """
    known = labelled_rows(labels)
    probabilities, labels = probabilities[known], labels[known]
    if labels.ndim == 2:
        return ((probabilities > 0.5) == (labels > 0.5)).float().mean()
    return (probabilities.argmax(-1) == labels).float().mean()


def best_values(posteriors: Mapping[str, Posterior]) -> dict[str, Tensor]:
    """The most likely value of each primitive, on the CPU."""
    return {name: posterior.best().float().cpu() for name, posterior in posteriors.items()}


def labelled_places(batch: Batch) -> Tensor:
    """Where the images with a label are in a batch, ``(n,)`` on the CPU, so that no GPU is waited for."""
    return batch["known"] if "known" in batch else labelled_rows(batch["label"]).nonzero().flatten().cpu()


def labelled(batch: Batch, *values: Tensor) -> tuple[Tensor, ...]:
    """Of values ``(B, …)``, each where it lies, the rows of images with a label."""
    places = labelled_places(batch)
    if len(places) == len(batch["label"]):
        return values
    return tuple(each[places.to(each.device, non_blocking=True)] for each in values)


def labelled_rows(labels: Tensor) -> Tensor:
    """Which images have a label, ``(B,)`` bool: −1 stands for none, in ``(B,)`` or all along ``(B, L)``."""
    return labels >= 0 if labels.ndim == 1 else (labels >= 0).all(1)
