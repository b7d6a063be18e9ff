"""What the classifier alone says about images that are turned."""

from __future__ import annotations

import torch
from torch import Tensor

from tokenstn.geometry import Orbit, rotation_group
from tokenstn.models import TokenSTN
from tokenstn.models.prediction import answer_confidence, probabilities_of


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
            probabilities = probabilities_of(model.backbone.logits(turned), model.multi_label)
            if labels is None:
                value = answer_confidence(probabilities, model.multi_label)
            else:
                value = (probabilities.argmax(-1) == labels[some]).float()
            values[k] += value.sum().cpu()
    return values / len(images)
