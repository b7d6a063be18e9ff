"""Everything that the page shows about one image: what came in, what is believed, what was seen, what is answered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tokenstn.apps.answer import Answer, describe, prepare
from tokenstn.apps.moves import padding_for
from tokenstn.data import to_float
from tokenstn.geometry import decompose, seen_rotation, warp
from tokenstn.inference.poses import photo_poses
from tokenstn.models import TokenSTN
from tokenstn.models.preprocessing import preprocessing_of
from tokenstn.posteriors import Posterior
from tokenstn.posteriors.point import Point

ANGLES = 180  # at which the density of the belief is drawn
TOGETHER = math.radians(35)  # views whose angles differ by less show the same orientation
COUNTS = 0.15  # weight from which an orientation is worth a word


@dataclass(frozen=True)
class Needle:
    """One view: its angle in radians, clockwise, its weight, and the class that it shows."""

    angle: float
    weight: float
    seen: str


@dataclass(frozen=True)
class Sight:
    """One look at a moved photo.

    photo, rectified ``(C, H, W)`` uint8. answer: as the server gives it. belief: density at ``ANGLES`` angles around
    the circle from 0, None without a rotation. probabilities, bare ``{class: probability}``: with and without
    rectification. why_no_flags: a sentence where the flags are not given. uncalibrated ``{flag: why}``: those that are
    raised on every image. promise: what an accepted label is worth.
    """

    photo: Tensor
    rectified: Tensor
    answer: Answer
    belief: list[float] | None
    needles: list[Needle]
    probabilities: dict[str, float]
    bare: dict[str, float]
    why_no_flags: str | None
    uncalibrated: dict[str, str]
    promise: str | None

    def orientations(self) -> list[Needle]:
        """The orientations that fit, heaviest first: views of about the same angle together, light ones left out."""
        groups: list[list[Needle]] = []
        for needle in sorted(self.needles, key=lambda one: -one.weight):
            near = [group for group in groups if _apart(group[0].angle, needle.angle) < TOGETHER]
            near[0].append(needle) if near else groups.append([needle])
        merged = [Needle(group[0].angle, sum(one.weight for one in group), _most(group)) for group in groups]
        return sorted((one for one in merged if one.weight >= COUNTS), key=lambda one: -one.weight)


@torch.inference_mode()
def look_at(model: TokenSTN, photo: Tensor, views: int | Literal["auto"] = "auto") -> Sight:
    """Call a model on a photo ``(C, H, W)`` uint8, with the channels that it takes, and keep what it believes."""
    prepared = preprocessing_of(model, "this model")
    images = to_float(prepare(photo, prepared).unsqueeze(0).to(model.device), prepared.mean, prepared.std)
    prediction = model(images, views=views)
    posteriors = model.believe(images, views)  # once more, for the belief itself
    size = (photo.shape[1], photo.shape[2])
    answer = describe(model, prediction, [size], prepared)[0]
    bare = model.classify(images, {}).probabilities
    names = model.class_names(bare.shape[1])
    rectified, needles = photo, []
    if posteriors:
        pose = photo_poses(prediction, [size], prepared)
        rectified = warp(photo.unsqueeze(0), pose, padding=padding_for(photo))[0]
    if "rotation" in posteriors and prediction.views is not None:
        used = prediction.views.weights[0] > 0
        matrices, weights = prediction.views.matrices[0, used], prediction.views.weights[0, used]
        first, others = matrices.unsqueeze(0).split((1, len(matrices) - 1), 1)
        further = model.auto.further if views == "auto" else "bilinear"  # as the call has looked
        looked = torch.cat((warp(images, first), warp(images, others, mode=further)), 1)[0]
        seen = model.classify(looked, {}).probabilities.argmax(1).tolist()
        angles = seen_rotation(decompose(matrices)).tolist()
        needles = [Needle(a, w, names[k]) for a, w, k in zip(angles, weights.tolist(), seen, strict=True)]
    return Sight(
        photo=photo,
        rectified=rectified,
        answer=answer,
        belief=_density(posteriors.get("rotation"), mirrored=bool(prediction.pose.reflection[0] < 0)),
        needles=needles,
        probabilities=dict(zip(names, prediction.probabilities[0].tolist(), strict=True)),
        bare=dict(zip(names, bare[0].tolist(), strict=True)),
        why_no_flags=_why_not(model, views),
        uncalibrated={} if model.thresholds is None else model.thresholds.uncalibrated,
        promise=_promise(model),
    )


def _density(posterior: Posterior | None, mirrored: bool) -> list[float] | None:
    """Of the angle as people are told it, which for a mirrored object is half a turn further."""
    if posterior is None or isinstance(posterior, Point):
        return None
    angles = torch.arange(ANGLES, dtype=torch.float32, device=posterior.raw.device) * (2 * math.pi / ANGLES)
    around = torch.remainder(angles + math.pi, 2 * math.pi) - math.pi
    density = posterior.log_prob(around.unsqueeze(0))[0].exp().nan_to_num(0.0)
    return density.roll(ANGLES // 2 if mirrored else 0).tolist()


def _why_not(model: TokenSTN, views: int | str) -> str | None:
    if model.thresholds is None:
        return "This model was not calibrated, so it gives no warnings."
    if not model.thresholds.holds_for(model.call_settings(views)):
        return f"Warnings hold for views “{model.thresholds.settings.views}” only: that is what was calibrated."
    return None


def _promise(model: TokenSTN) -> str | None:
    if model.thresholds is None or model.thresholds.of_class is None:
        return None
    given = model.thresholds.of_class.guarantee
    share = f"{100 * given.target_risk:.3g}\u202f%"
    return f"At most {share} of accepted labels are wrong, for images like those it was tested on."


def _apart(one: float, other: float) -> float:
    return abs(math.remainder(one - other, 2 * math.pi))


def _most(group: list[Needle]) -> str:
    weights: dict[str, float] = {}
    for needle in group:
        weights[needle.seen] = weights.get(needle.seen, 0.0) + needle.weight
    return max(weights, key=lambda name: weights[name])
