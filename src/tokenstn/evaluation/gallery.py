"""A few images to look at: what came in, what was corrected, what came out. The most telling of each kind.

fixed: the bare classifier is wrong, the rectified one right, and the right class gained most probability. broken: the
other way round. ambiguous: the belief about the rotation is broadest. No image is shown twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from tokenstn.data import ImageTable
from tokenstn.evaluation.answers import Answers
from tokenstn.evaluation.method import Method, Sampling, Views
from tokenstn.evaluation.orbit import device_of
from tokenstn.evaluation.photos import PhotoOrbit, Photos, collate_photos
from tokenstn.evaluation.results import Example
from tokenstn.models import Prediction, Preprocessing

KINDS = ("fixed", "broken", "ambiguous")
LARGEST_SIDE = 160


@dataclass(frozen=True)
class Pick:
    """Which copy to show: image ``place`` of the answers, under ``element``."""

    kind: str
    element: int
    place: int


def pick_examples(answers: Answers, count: int = 6) -> list[Pick]:
    """At most ``count`` of each kind, the most telling first, no image twice; none for a bare classifier."""
    if answers.rectified is None or answers.poses is None:
        return []
    known = answers.labelled
    before, after = answers.bare.all_right, answers.rectified.all_right
    # of the right answer; −nll is the logarithm of that probability
    gain = torch.exp(-answers.rectified.nll.double()) - torch.exp(-answers.bare.nll.double())
    entropy = answers.poses.entropy
    wanted = {"fixed": (known & ~before & after, gain), "broken": (known & before & ~after, -gain)}
    if entropy:
        belief = entropy["rotation"] if "rotation" in entropy else torch.stack(list(entropy.values())).amax(0)
        wanted["ambiguous"] = (torch.ones_like(belief, dtype=torch.bool), belief)
    shown: set[int] = set()
    picks: list[Pick] = []
    for kind, (eligible, value) in wanted.items():
        value = torch.where(eligible, value.double().nan_to_num(-math.inf), -math.inf)
        best, element = value.max(0)  # the best copy of each image
        order = best.sort(descending=True, stable=True).indices.tolist()
        places = [place for place in order if best[place] > -math.inf and place not in shown][:count]
        shown.update(places)
        picks += [Pick(kind, int(element[place]), place) for place in places]
    return picks


@torch.no_grad()
def render_examples(
    model: Method,
    table: ImageTable,
    answers: Answers,
    picks: list[Pick],
    classes: tuple[str, ...],
    *,
    views: Views = "auto",
    sampling: Sampling = "probable",
    seed: int = 0,
    mask: bool = False,
) -> list[Example]:
    """Make the picked copies again, and ask the model once more. ``seed`` and ``mask`` are those of the orbit."""
    preprocessing = model.preprocessing
    assert preprocessing is not None
    model.eval()
    device = device_of(model)
    examples = []
    for pick in picks:
        row = answers.rows[pick.place : pick.place + 1]
        batch = collate_photos([Photos(table, row, preprocessing)[0]])
        if len(batch["index"]) == 0:  # it was there before; a file that has gone since is no reason to fail
            continue
        images = PhotoOrbit(batch, answers.group, preprocessing, device=device, seed=seed, mask=mask)[pick.element]
        bare, rectified = model.classify(images, {}), model(images, views=views, sampling=sampling)
        looked_at = images if rectified.rectified is None else rectified.rectified  # a method may not rectify
        examples.append(
            Example(
                kind=pick.kind,
                name=table.item_name(int(row)),
                image=_pixels(images, preprocessing),
                rectified=_pixels(looked_at, preprocessing),
                label=_label(answers, pick.place, classes),
                bare=_say(bare, model.multi_label, classes),
                bare_confidence=_confidence(bare, model.multi_label),
                answer=_say(rectified, model.multi_label, classes),
                confidence=_confidence(rectified, model.multi_label),
                **_pose(rectified, [primitive.name for primitive in model.primitives]),
            )
        )
    return examples


def _pose(prediction: Prediction, estimated: list[str]) -> dict[str, Any]:
    pose, entropy, spread = prediction.pose, prediction.entropy or {}, prediction.spread or {}
    return {
        "rotation_deg": None if pose is None or "rotation" not in estimated else math.degrees(pose.rotation.item()),
        "spread_deg": math.degrees(spread["rotation"].item()) if "rotation" in spread else None,
        "scale": None if pose is None or "scale" not in estimated else pose.scale.item(),
        "entropy": {name: value.item() for name, value in entropy.items()},
    }


def _pixels(images: Tensor, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """A normalised image ``(1, C, H, W)`` as people see it, uint8 ``(h, w, 3)`` of at most 160 pixels a side."""
    mean, std = (torch.tensor(v, device=images.device)[:, None, None] for v in (preprocessing.mean, preprocessing.std))
    seen = images.float() * std + mean
    shrink = LARGEST_SIDE / max(seen.shape[-2:])
    if shrink < 1:
        size = [max(1, round(side * shrink)) for side in seen.shape[-2:]]
        seen = F.interpolate(seen, size=size, mode="bilinear", antialias=True, align_corners=False)
    seen = (seen[0].clamp(0, 1) * 255).round().to(torch.uint8).cpu()
    return seen[:3].expand(3, -1, -1).movedim(0, -1).contiguous().numpy()


def _label(answers: Answers, place: int, classes: tuple[str, ...]) -> str | None:
    if not bool(answers.labelled[place]):
        return None
    label = answers.labels[place]
    return _names(label > 0, classes) if answers.multi_label else classes[int(label)]


def _say(prediction: Prediction, multi_label: bool, classes: tuple[str, ...]) -> str:
    probabilities = prediction.probabilities[0].cpu()
    return _names(probabilities > 0.5, classes) if multi_label else classes[int(probabilities.argmax())]


def _names(said: Tensor, classes: tuple[str, ...]) -> str:
    return ", ".join(classes[k] for k in said.nonzero().flatten().tolist()) or "none"


def _confidence(prediction: Prediction, multi_label: bool) -> float:
    probabilities = prediction.probabilities[0]
    if multi_label:
        return torch.maximum(probabilities, 1 - probabilities).mean().item()
    return probabilities.max().item()
