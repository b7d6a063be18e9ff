"""Train a classifier on the data as they are, or moved as the paper's "Augmented" is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from tokenstn.baselines.likelihood import mixture_loss
from tokenstn.geometry import Primitive, Reflection, Rotation, Scale
from tokenstn.models import Preprocessing, TokenSTN
from tokenstn.models.checkpoint import head_name
from tokenstn.training.labels import Batch, labelled, labelled_places, share_right
from tokenstn.training.losses import classification_loss
from tokenstn.training.module import Training
from tokenstn.training.poses import draw_poses
from tokenstn.training.recipes import Recipe

JITTER = (Rotation(bound=math.radians(14)), Scale(bound=0.9))  # what an upright classifier sees of other poses


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
        name = head_name(self.model.classifier)
        head = () if name is None else self.model.classifier.get_submodule(name).parameters()
        return self.apart(head, self.recipe.head_rate)

    def training_step(self, batch: Batch, number: int) -> Tensor | None:
        images = self.images(batch)
        if len(labelled_places(batch)) == 0:
            return None
        loss = self.loss(images, batch)
        self.note({"train/loss": loss}, len(labelled_places(batch)))
        return loss

    def loss(self, images: Tensor, batch: Batch) -> Tensor:
        """Of the labelled images ``(B, C, h, w)``, turned and zoomed slightly; a scalar."""
        images, labels, index = labelled(batch, images, batch["label"], batch["index"])
        slightly = draw_poses(self.moves, self.seed, self.current_epoch, index)
        # a reflection alone is upside down: half a turn makes it left-right
        half_turn = torch.where(slightly.reflection < 0, math.pi, 0.0)
        slightly = replace(slightly, rotation=slightly.rotation + half_turn)
        images, *_ = self.at_pose(images, slightly)
        model, smoothing = self.model, self.recipe.label_smoothing
        if model.multi_label:  # of a label that is surely wrong, only the logit has a gradient left
            return mixture_loss(model.backbone.logits(images).unsqueeze(1), labels, True, smoothing)
        return classification_loss(model(images).probabilities, labels, label_smoothing=smoothing)

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
