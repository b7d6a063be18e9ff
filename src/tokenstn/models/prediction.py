"""What a call returns, and the two flags: several poses fit, and do not trust the label."""

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
    the mutual information of view and class. pose_ambiguous, class_uncertain ``(B,)`` bool: only with thresholds.
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


@dataclass(frozen=True)
class Thresholds:
    """Above which values the flags are raised.

    pose_entropy: the largest entropy of any primitive. class_doubt: 1 − the probability of the predicted class (of the
    least certain label, for multi-label models).
    """

    pose_entropy: float
    class_doubt: float

    def __post_init__(self) -> None:
        for name, value in (("pose_entropy", self.pose_entropy), ("class_doubt", self.class_doubt)):
            if not 0 <= value <= 1:
                raise ValueError(f"threshold {name}={value!r}: from 0 to 1")

    def pose_ambiguous(self, entropy: dict[str, Tensor]) -> Tensor | None:
        """Whether several poses fit, ``(B,)``; None where no primitive is estimated."""
        if not entropy:
            return None
        return torch.stack(list(entropy.values())).amax(0) > self.pose_entropy

    def class_uncertain(self, probabilities: Tensor, multi_label: bool) -> Tensor:
        """Whether not to trust the label, ``(B,)``."""
        if multi_label:
            return torch.minimum(probabilities, 1 - probabilities).amax(-1) > self.class_doubt
        return 1 - probabilities.amax(-1) > self.class_doubt
