"""Train the rectifier in front of a classifier, by the poses that training itself applies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.geometry import Pose
from tokenstn.models import Preprocessing, TokenSTN
from tokenstn.posteriors import Posterior, family_of
from tokenstn.training.alignment import absolute_alignment, relative_alignment, variance_preserving
from tokenstn.training.corners import vary_corners
from tokenstn.training.labels import Batch, labelled, labelled_places, share_right
from tokenstn.training.losses import classification_loss, kl_loss
from tokenstn.training.module import Training
from tokenstn.training.poses import draw_pose_pairs, draw_poses, image_noise
from tokenstn.training.recipes import Recipe


@dataclass(frozen=True)
class PosedBatch:
    """Poses found for images as they come, how they were then moved, and what was found for the moved ones.

    Each ``{primitive: (B,)}``, or ``(B, 2)`` for a translation, on the CPU.
    """

    found: dict[str, Tensor]
    moves: dict[str, Tensor]
    found_moved: dict[str, Tensor]


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
        recipe.require_labels(labelled)
        require_learnable(model, recipe, upright)
        self.model, self.upright, self.labelled = model, upright, labelled
        # what a belief cannot reach, it cannot learn
        self.moves = tuple(family_of(model.posterior, each).reached(each) for each in model.primitives)

    def training_step(self, batch: Batch, number: int) -> Tensor | None:
        images = self.images(batch)
        if len(images) == 0:
            return None
        # a localizer that is to read two sizes learns them in turns, in whichever order the images come
        closer = self.model.reads_closer and (self.current_epoch + number) % 2 == 1
        terms = self.terms(images, batch, closer)
        if not terms:  # labels are all that is learned from, and no image of the batch has one
            return None
        total = torch.stack(list(terms.values())).sum()
        figures = {f"train/{name}": term for name, term in terms.items()} | {"train/loss": total}
        if "classification" in terms:  # a mean over fewer images
            self.note({"train/classification": figures.pop("train/classification")}, len(labelled_places(batch)))
        self.note(figures, len(images))
        return total

    def loss(self, images: Tensor, batch: Batch, closer: bool = False) -> Tensor:
        """The sum of the terms, a scalar."""
        return torch.stack(list(self.terms(images, batch, closer).values())).sum()

    def terms(self, images: Tensor, batch: Batch, closer: bool = False) -> dict[str, Tensor]:
        """Every weighted term of the loss, by name; ``closer``: of reading the images from closer by."""
        recipe, model, index = self.recipe, self.model, batch["index"]
        images = self.maybe_mirrored(images, index)
        primitives = self.moves if recipe.apply_poses else ()
        terms: dict[str, Tensor] = {}
        if self.upright or not recipe.alignment:
            posed, pose, read = self.at_pose(images, draw_poses(primitives, self.seed, self.current_epoch, index))
            seen = self.as_seen(posed, images, read, index)
            if self.learns_poses_alone:
                names = (f"alignment_{primitive.name}" for primitive in model.primitives)
                found = recipe.alignment * self.aligned(seen, *vars(pose).values(), closer=closer)
                return dict(zip(names, found.unbind(), strict=True))
            posteriors = model.localize(seen, closer=closer)
            aligned = absolute_alignment(posteriors, pose) if recipe.alignment else {}
        else:
            first, second = draw_pose_pairs(primitives, self.seed, self.current_epoch, index)
            posed, pose, read = self.at_pose(images, first)
            other, other_pose, other_read = self.at_pose(images, second)
            posteriors = model.localize(self.as_seen(posed, images, read, index), closer=closer)
            others = model.localize(self.as_seen(other, images, other_read, index, draw=1), closer=closer)
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

    @property
    def learns_poses_alone(self) -> bool:
        """Whether the loss is made of nothing but the known poses of upright images, as by default."""
        return bool(self.upright and not self.learns_more_than_poses)

    @property
    def learns_more_than_poses(self) -> bool:
        """Whether the loss has other terms beside the known poses."""
        recipe = self.recipe
        return bool(recipe.kl or recipe.variance or (recipe.classification and self.labelled))

    def aligned(self, seen: Tensor, *applied: Tensor, closer: bool = False) -> Tensor:
        """How badly images ``(B, C, h, w)`` are read that were given a pose, the fields of it: ``(primitives,)``."""
        return torch.stack(list(absolute_alignment(self.model.localize(seen, closer=closer), Pose(*applied)).values()))

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
        posed, pose, _ = self.at_pose(images, draw_poses(self.moves, self.seed, -1, batch["index"]))
        both = self.model.heads(torch.cat((images, posed)))  # read in one go
        as_it_comes, moved = (
            self.model.beliefs({name: raw[rows] for name, raw in both.items()})
            for rows in (slice(None, len(images)), slice(len(images), None))
        )
        if self.upright:
            aligned = absolute_alignment(moved, pose)
        else:
            unmoved = Pose.of(rotation=torch.zeros_like(pose.rotation))
            aligned = relative_alignment(as_it_comes, moved, unmoved, pose)
        recipe, of_poses = self.recipe, torch.stack(list(aligned.values())).sum()
        terms = [recipe.alignment * of_poses] if recipe.alignment else []
        if self.labelled and len(labelled_places(batch)):
            answers = {
                "val/posed": self.model.classify(posed, moved),
                "val/upright": self.model.classify(images, as_it_comes),
            }
            right = {name: share_right(found.probabilities, batch["label"]) for name, found in answers.items()}
            self.log_dict(right, prog_bar=True, sync_dist=True, batch_size=len(labelled_places(batch)))
            if recipe.classification:
                answer = answers["val/posed" if recipe.apply_poses else "val/upright"]
                likely, labels = labelled(batch, answer.probabilities, batch["label"])
                loss = classification_loss(likely, labels, self.model.multi_label, recipe.label_smoothing)
                terms.append(recipe.classification * loss)
        shown = moved if recipe.apply_poses else as_it_comes  # as training shows them
        if recipe.kl:
            terms.append(recipe.kl * kl_loss(shown))
        if recipe.variance:
            terms.append(recipe.variance * variance_preserving(moved, pose))
        if terms:  # none, where labels are all that is learned from and no image of the batch has one
            total = torch.stack(terms).sum()
            self.log("val/loss", total, prog_bar=True, sync_dist=True, batch_size=len(images))
        if self.learns_more_than_poses:  # else it is the loss
            self.log("val/pose", of_poses, sync_dist=True, batch_size=len(images))
        moves = {name: getattr(pose, name).cpu() for name in moved}
        return {"poses": PosedBatch(best_values(as_it_comes), moves, best_values(moved))}


def require_learnable(model: TokenSTN, recipe: Recipe, upright: bool) -> None:
    """Refuse primitives that cannot be learned from the images as they are.

    A recipe without alignment learns all of them from labels, whichever way is up.
    """
    names = [primitive.name for primitive in model.primitives]
    others = [name for name in names if name not in ("rotation", "scale")]
    if not upright and recipe.alignment and others:
        raise ValueError(
            f"{' and '.join(others)} cannot be learned from images that do not come upright, only rotation and scale "
            "can: if they do come upright, say so, --upright yes; otherwise take no other primitives than these"
        )
    if recipe.mirror and "reflection" in names:
        raise ValueError(
            "images that are shown mirrored at random do not tell what is mirrored: leave --mirror out, or reflection "
            "out of the primitives"
        )


def best_values(posteriors: Mapping[str, Posterior]) -> dict[str, Tensor]:
    """The most likely value of each primitive, on the CPU."""
    return {name: posterior.best().float().cpu() for name, posterior in posteriors.items()}
