"""What the classifier alone says about images that are turned."""

from __future__ import annotations

import torch
from torch import Tensor

from tokenstn.geometry import Orbit, rotation_group
from tokenstn.models import TokenSTN
from tokenstn.models.prediction import probabilities_of


@torch.no_grad()
def value_by_angle(
    model: TokenSTN, images: Tensor, labels: Tensor | None, order: int = 16, batch_size: int = 128
) -> Tensor:
    """The bare classifier on images turned by 2πk / order, ``(order,)``: accuracy, or confidence without labels.

    ``images (N, C, H, W)`` are normalised and on the model's device; labels ``(N,)``, one for each.
    """
    model.eval()
    group = rotation_group(order)
    values = torch.zeros(order)
    for some in torch.arange(len(images)).split(batch_size):
        for k, (_, turned) in enumerate(Orbit(images[some], group)):
            # of several labels the most probable one: most of the others are surely absent, at every angle
            confidence, answer = probabilities_of(model.backbone.logits(turned), model.multi_label).max(-1)
            values[k] += (confidence if labels is None else (answer == labels[some]).float()).sum().cpu()
    return values / len(images)
