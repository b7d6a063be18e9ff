"""The Lightning modules: one trains a classifier on the data as they are, one the rectifier in front of it.

Batches are ``{"image": uint8 (B, C, h, w), "label": (B,) or (B, L), "index": (B,)}``. Poses are drawn on the CPU as a
function of (seed, epoch, image) and applied on the device, so that a run does not depend on the order of the images,
the number of processes, or where it was interrupted.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import lightning
import torch
from torch import Tensor, nn

from tokenstn.data import to_float
from tokenstn.geometry import Pose, Rotation, Scale, warp
from tokenstn.models import Preprocessing, TokenSTN
from tokenstn.training.alignment import absolute_alignment, relative_alignment, variance_preserving
from tokenstn.training.freezing import keep_frozen_parts_in_eval
from tokenstn.training.losses import classification_loss, kl_loss
from tokenstn.training.poses import draw_pose_pairs, draw_poses
from tokenstn.training.recipes import Recipe

Batch = dict[str, Tensor]
JITTER = (Rotation(bound=math.radians(14)), Scale(bound=0.9))  # what an upright classifier sees of other poses

VALIDATION_VIEWS = 4


class _Training(lightning.LightningModule):
    """What both have in common: AdamW, warm-up and cosine, frozen parts in evaluation mode, images to the device."""

    def __init__(self, recipe: Recipe, preprocessing: Preprocessing, seed: int) -> None:
        super().__init__()
        self.recipe, self.preprocessing, self.seed = recipe, preprocessing, seed

    def train(self, mode: bool = True) -> _Training:
        super().train(mode)
        keep_frozen_parts_in_eval(self)
        return self

    def images(self, batch: Batch) -> Tensor:
        """Normalised images ``(B, C, h, w)`` on the device."""
        return to_float(batch["image"], self.preprocessing.mean, self.preprocessing.std)

    def at_pose(self, images: Tensor, pose: Pose) -> tuple[Tensor, Pose]:
        """The images ``(B, C, h, w)`` at a pose, and that pose on their device."""
        pose = Pose(*(getattr(pose, field.name).to(images.device) for field in fields(pose)))
        return warp(images, pose.matrix, inverse=True, validate=False), pose

    def configure_optimizers(self) -> Any:
        recipe, steps = self.recipe, int(self.trainer.estimated_stepping_batches)
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=recipe.rate, weight_decay=recipe.weight_decay)
        warmup = max(1, round(recipe.warmup * steps))

        def factor(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, steps - warmup))))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class ClassifierTraining(_Training):
    """Train a classifier on the images as they are, give or take a slight turn and zoom."""

    def __init__(
        self, classifier: nn.Module, recipe: Recipe, preprocessing: Preprocessing, seed: int, multi_label: bool = False
    ) -> None:
        super().__init__(recipe, preprocessing, seed)
        self.model = TokenSTN(classifier, primitives=(), multi_label=multi_label)

    def training_step(self, batch: Batch, number: int) -> Tensor:
        slightly = draw_poses(JITTER, self.seed, self.current_epoch, batch["index"].cpu())
        images, _ = self.at_pose(self.images(batch), slightly)
        probabilities = self.model(images).probabilities
        loss = classification_loss(probabilities, batch["label"], self.model.multi_label, self.recipe.label_smoothing)
        self.log("train/loss", loss, prog_bar=True, on_step=False, on_epoch=True, batch_size=len(images))
        return loss

    def validation_step(self, batch: Batch, number: int) -> None:
        probabilities = self.model(self.images(batch)).probabilities
        loss = classification_loss(probabilities, batch["label"], self.model.multi_label)
        right = share_right(probabilities, batch["label"])
        self.log_dict(
            {"val/loss": loss, "val/upright": right}, prog_bar=True, sync_dist=True, batch_size=len(probabilities)
        )


class RectifierTraining(_Training):
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

    def training_step(self, batch: Batch, number: int) -> Tensor:
        terms = self.terms(self.images(batch), batch)
        total = torch.stack(list(terms.values())).sum()
        shown = {f"train/{name}": term.detach() for name, term in terms.items()} | {"train/loss": total.detach()}
        self.log_dict(shown, on_step=False, on_epoch=True, batch_size=len(batch["index"]))
        return total

    def terms(self, images: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Every weighted term of the loss, by name."""
        recipe, model, index = self.recipe, self.model, batch["index"].cpu()
        primitives = model.primitives if recipe.apply_poses else ()
        terms: dict[str, Tensor] = {}
        if self.upright or not recipe.alignment:
            posed, pose = self.at_pose(images, draw_poses(primitives, self.seed, self.current_epoch, index))
            posteriors = model.localize(posed)
            aligned = absolute_alignment(posteriors, pose) if recipe.alignment else {}
        else:
            first, second = draw_pose_pairs(primitives, self.seed, self.current_epoch, index)
            posed, pose = self.at_pose(images, first)
            other, other_pose = self.at_pose(images, second)
            posteriors = model.localize(posed)
            aligned = relative_alignment(posteriors, model.localize(other), pose, other_pose)
        for name, term in aligned.items():
            terms[f"alignment_{name}"] = recipe.alignment * term
        if recipe.classification and self.labelled:
            # drawn on the CPU from the step alone, so that a resumed run draws the same
            generator = torch.Generator().manual_seed(self.seed + 7919 * self.global_step)
            answer = model.classify(posed, posteriors, recipe.views, recipe.sampling, generator)
            loss = classification_loss(answer.probabilities, batch["label"], model.multi_label, recipe.label_smoothing)
            terms["classification"] = recipe.classification * loss
        if recipe.kl:
            terms["kl"] = recipe.kl * kl_loss(posteriors)
        if recipe.variance:
            terms["variance"] = recipe.variance * variance_preserving(posteriors, pose)
        return terms

    def validation_step(self, batch: Batch, number: int) -> None:
        """Every validation image upright and at one random pose of its own, the same in every epoch."""
        images = self.images(batch)
        posed, pose = self.at_pose(images, draw_poses(self.model.primitives, self.seed, -1, batch["index"].cpu()))
        posteriors = self.model.localize(posed)
        measured: dict[str, Tensor] = {}
        if self.labelled:
            answers = {
                "val/bare_posed": self.model.classify(posed, {}),  # no belief: the classifier alone
                "val/posed": self.model.classify(posed, posteriors, VALIDATION_VIEWS),
                "val/upright": self.model(images, VALIDATION_VIEWS),
            }
            measured = {name: share_right(found.probabilities, batch["label"]) for name, found in answers.items()}
        if self.upright:
            aligned = absolute_alignment(posteriors, pose)
        else:
            unmoved = Pose.of(rotation=torch.zeros_like(pose.rotation))
            aligned = relative_alignment(self.model.localize(images), posteriors, unmoved, pose)
        measured["val/loss"] = torch.stack(list(aligned.values())).sum()
        self.log_dict(measured, prog_bar=True, sync_dist=True, batch_size=len(images))


def share_right(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Share of images whose most probable class is their label; for multi-label targets, of labels right at ½."""
    if labels.ndim == 2:
        return ((probabilities > 0.5) == (labels > 0.5)).float().mean()
    return (probabilities.argmax(-1) == labels).float().mean()
