"""The Lightning module that trains a rival by its own loss, on images that are moved as the experiment says."""

from __future__ import annotations

import torch
from torch import Tensor

from tokenstn.baselines import Rival
from tokenstn.geometry import Primitive
from tokenstn.models import Preprocessing
from tokenstn.training.labels import Batch, labelled, labelled_places, share_right
from tokenstn.training.losses import classification_loss
from tokenstn.training.module import Training
from tokenstn.training.poses import draw_poses, image_noise
from tokenstn.training.recipes import Recipe


class RivalTraining(Training):
    """Train a rival: its classifier frozen, half frozen or free beforehand, whatever it adds to it always.

    Args:
        augmentation: how training images are moved, whichever primitives the method estimates; () leaves them as they
            are. ``vanilla`` with augmentation is the paper's "Augmented".
        upright: the images as they come are upright, which is what the prior of CanPrior is about.
    """

    def __init__(
        self,
        model: Rival,
        recipe: Recipe,
        preprocessing: Preprocessing,
        seed: int,
        augmentation: tuple[Primitive, ...],
        upright: bool = True,
    ) -> None:
        super().__init__(recipe, preprocessing, seed)
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ValueError(
                f"{type(model).__name__} has nothing to train while its classifier is frozen: use it as it is, or free "
                "the classifier"
            )
        self.model, self.augmentation, self.upright = model, augmentation, upright

    def training_step(self, batch: Batch, number: int) -> Tensor | None:
        images = self.images(batch)
        if len(labelled_places(batch)) == 0:
            return None
        terms = self.terms(images, batch)
        total = torch.stack(list(terms.values())).sum()
        figures = {f"train/{name}": term for name, term in terms.items()} | {"train/loss": total}
        self.note(figures, len(labelled_places(batch)))
        return total

    def terms(self, images: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Every weighted term of the rival's loss on the labelled images ``(B, C, h, w)``, by name."""
        images, labels, index = labelled(batch, images, batch["label"], batch["index"])
        images, epoch = self.maybe_mirrored(images, index), self.current_epoch
        posed, *_ = self.at_pose(images, draw_poses(self.augmentation, self.seed, epoch, index))
        return self.model.losses(
            posed,
            labels,
            label_smoothing=self.recipe.label_smoothing,
            noise=image_noise(self.seed, epoch, index),
            upright=images if self.upright else None,
        )

    def validation_step(self, batch: Batch, number: int) -> None:
        """Every labelled image as it comes and at one random pose of its own, the same in every epoch."""
        images, labels, index = labelled(batch, self.images(batch), batch["label"], batch["index"])
        if len(labels) == 0:
            return
        posed, *_ = self.at_pose(images, draw_poses(self.augmentation, self.seed, -1, index))
        found = self.model(posed).probabilities
        measured = {
            "val/loss": classification_loss(found, labels, self.model.multi_label),
            "val/posed": share_right(found, labels),
            "val/upright": share_right(self.model(images).probabilities, labels),
        }
        self.log_dict(measured, prog_bar=True, sync_dist=True, batch_size=len(images))
