"""What rectification did to a set of labelled images: right before and after, upright and turned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.data import to_float
from tokenstn.geometry import Orbit, rotation_group
from tokenstn.models import Preprocessing, TokenSTN


@dataclass(frozen=True)
class Outcome:
    """Shares of right answers from 0 to 1, and counts of answers over all rotations.

    by_angle, bare_by_angle: one for each of n rotations 2πk / n, the upright images first. fixed of the base_wrong
    answers became right, broken of the base_right ones became wrong.
    """

    bare_by_angle: tuple[float, ...]
    by_angle: tuple[float, ...]
    fixed: int
    base_wrong: int
    broken: int
    base_right: int

    @property
    def upright(self) -> float:
        return self.by_angle[0]

    @property
    def bare_upright(self) -> float:
        return self.bare_by_angle[0]

    @property
    def rotated(self) -> float:
        return sum(self.by_angle) / len(self.by_angle)

    @property
    def bare_rotated(self) -> float:
        return sum(self.bare_by_angle) / len(self.bare_by_angle)

    @property
    def harms(self) -> bool:
        """Whether the rectifier breaks more than it fixes."""
        return self.broken > self.fixed


@torch.no_grad()
def measure(
    model: TokenSTN, batches: Iterable[dict[str, Tensor]], preprocessing: Preprocessing, order: int = 16
) -> Outcome:
    """Turn every image through a group of rotations; the bare classifier and the model answer on the same pixels.

    ``batches`` are ``{"image": uint8 (B, C, h, w), "label": (B,)}``; unlabelled images (−1) are left out. The model is
    put into evaluation mode and runs on the device that it is on.
    """
    model.eval()
    device = next(model.parameters()).device
    group = rotation_group(order)
    counts = torch.zeros(order, 4, dtype=torch.long)  # right bare, right, fixed, broken
    total = 0
    for batch in batches:
        known = batch["label"] >= 0
        labels = batch["label"][known].to(device)
        images = to_float(batch["image"][known].to(device), preprocessing.mean, preprocessing.std)
        total += len(images)
        for k, (_, turned) in enumerate(Orbit(images, group) if len(images) else ()):
            before = model.backbone.logits(turned).argmax(-1) == labels
            after = model(turned).probabilities.argmax(-1) == labels
            counts[k] += torch.stack(
                (before.sum(), after.sum(), (after & ~before).sum(), (before & ~after).sum())
            ).cpu()
    if total == 0:
        raise ValueError("there is no labelled image to measure on")
    right_before, right_after, fixed, broken = counts.unbind(1)
    return Outcome(
        bare_by_angle=tuple((right_before / total).tolist()),
        by_angle=tuple((right_after / total).tolist()),
        fixed=int(fixed.sum()),
        base_wrong=order * total - int(right_before.sum()),
        broken=int(broken.sum()),
        base_right=int(right_before.sum()),
    )


@torch.no_grad()
def value_by_angle(
    model: TokenSTN, images: Tensor, labels: Tensor | None, order: int = 16, batch_size: int = 128
) -> Tensor:
    """The bare classifier on images turned by 2πk / order, ``(order,)``: accuracy, or confidence without labels.

    ``images (N, C, H, W)`` are normalised and on the model's device.
    """
    model.eval()
    group = rotation_group(order)
    values = torch.zeros(order)
    for some in torch.arange(len(images)).split(batch_size):
        for k, (_, turned) in enumerate(Orbit(images[some], group)):
            probabilities = model.backbone.logits(turned).softmax(-1)
            confidence, answer = probabilities.max(-1)
            values[k] += (confidence if labels is None else (answer == labels[some]).float()).sum().cpu()
    return values / len(images)
