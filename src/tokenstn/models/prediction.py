"""What a call returns, with the two flags: several poses fit, and do not trust the label."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.geometry import Pose
from tokenstn.posteriors import Views


@dataclass(frozen=True)
class Prediction:
    """Everything that one call learned about B images. What a method does not have is None.

    probabilities ``(B, classes)``: averaged over the views. pose: the most likely one, batch shape ``(B,)``.
    rectified ``(B, C, H, W)``: the images under that pose. entropy, spread ``{primitive: (B,)}``: of the bounded
    variable, the first from 0 (certain) to 1 (uniform), the second a standard deviation in the primitive's unit.
    views: the poses that were looked at. disagreement ``(B,)``: between their answers, in nats, 0 for a single view:
    the mutual information of view and class. pose_ambiguous, class_uncertain ``(B,)`` bool: only with thresholds, and
    only in calls that these hold for (``Thresholds.why_not``).
    """

    probabilities: Tensor
    pose: Pose | None = None
    rectified: Tensor | None = None
    entropy: dict[str, Tensor] | None = None
    spread: dict[str, Tensor] | None = None
    views: Views | None = None
    disagreement: Tensor | None = None
    pose_ambiguous: Tensor | None = None
    class_uncertain: Tensor | None = None


def answer_confidence(probabilities: Tensor, multi_label: bool = False) -> Tensor:
    """Of answers ``(…, classes)``, ``(…)``; for several labels the mean over those of the more probable side.

    >>> answer_confidence(torch.tensor([0.75, 0.25]))
    tensor(0.7500)
    """
    if multi_label:
        return torch.maximum(probabilities, 1 - probabilities).mean(-1)
    return probabilities.amax(-1)


def answer_entropy(probabilities: Tensor, multi_label: bool = False) -> Tensor:
    """Entropy of answers ``(…, classes)`` in nats, ``(…)``; for several labels the sum over yes or no for each.

    >>> answer_entropy(torch.tensor([0.5, 0.5]))
    tensor(0.6931)
    """
    each = torch.special.entr(probabilities)
    if multi_label:
        each = each + torch.special.entr(1 - probabilities)
    return each.sum(-1)


torch.export.register_dataclass(Prediction, serialized_type_name="tokenstn.Prediction")
