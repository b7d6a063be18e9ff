"""What a call returns, with the two flags: several poses fit, and do not trust the label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.geometry import Pose, invert
from tokenstn.models.frame_map import FrameMap
from tokenstn.models.preprocessing import Preprocessing
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
    entropy: Mapping[str, Tensor] | None = None
    spread: Mapping[str, Tensor] | None = None
    views: Views | None = None
    disagreement: Tensor | None = None
    pose_ambiguous: Tensor | None = None
    class_uncertain: Tensor | None = None

    def to_input(self, row: int) -> FrameMap:
        """The way back from image ``row`` of ``rectified`` to the same image as it came in.

        >>> pose = Pose.of(rotation=torch.tensor([torch.pi / 2]))
        >>> p = Prediction(torch.ones(1, 1), pose, rectified=torch.zeros(1, 3, 40, 40))
        >>> p.to_input(0).points(torch.tensor([[20.0, 0.0]])).round()      # what is on top now was on the right
        tensor([[40., 20.]])
        """
        if self.pose is None or self.rectified is None:
            raise ValueError("this prediction has no pose and no rectified image, so that there is no way back from it")
        height, width = self.rectified.shape[-2:]
        return FrameMap(self.pose.matrix[row].detach().double().cpu(), (height, width), (height, width))

    def to_photo(
        self,
        row: int,
        photo_size: tuple[int, int],
        preprocessing: Preprocessing,
        box: Sequence[int] | None = None,
    ) -> FrameMap:
        """The way back from image ``row`` of ``rectified`` to the photo that it was made from.

        Args:
            photo_size: height and width of the whole photo.
            preprocessing: the model's.
            box: left, top, right, bottom in pixels, where that part of the photo was cut out first.
        """
        found = self.to_input(row)
        if found.size != preprocessing.size:
            raise ValueError(f"the input has {found.size} pixels, and the preprocessing makes {preprocessing.size}")
        return FrameMap(invert(preprocessing.matrix(photo_size, box)) @ found.matrix, found.size, photo_size)


def probabilities_of(logits: Tensor, multi_label: bool = False) -> Tensor:
    """Of a classifier's outputs ``(…, classes)``: they sum to 1, or for several labels each stands alone.

    >>> probabilities_of(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if multi_label else logits.softmax(-1)


def answer_confidence(probabilities: Tensor, multi_label: bool = False) -> Tensor:
    """Of answers ``(…, classes)``, ``(…)``; for several labels the mean over those of the more probable side.

    >>> answer_confidence(torch.tensor([0.75, 0.25]))
    tensor(0.7500)
    """
    if multi_label:
        return torch.maximum(probabilities, 1 - probabilities).mean(-1)
    return probabilities.amax(-1)


def odds_of(probabilities: Tensor, multi_label: bool = False) -> Tensor:
    """How many times more probable the answer is than the next one, of answers ``(…, classes)``, ``(…)``.

    For several labels, of the label where the two sides are the closest.

    >>> odds_of(torch.tensor([0.75, 0.05, 0.2]))
    tensor(3.7500)
    """
    if multi_label:
        likely = torch.maximum(probabilities, 1 - probabilities)
        return (likely / (1 - likely)).amin(-1)
    if probabilities.shape[-1] == 1:
        return torch.full_like(probabilities[..., 0], torch.inf)
    best, next_best = probabilities.topk(2, -1).values.unbind(-1)
    return best / next_best


def answer_entropy(probabilities: Tensor, multi_label: bool = False) -> Tensor:
    """Entropy of answers ``(…, classes)`` in nats, ``(…)``; for several labels the sum over yes or no for each.

    >>> answer_entropy(torch.tensor([0.5, 0.5]))
    tensor(0.6931)
    """
    each = _surprise(probabilities)
    if multi_label:
        each = each + _surprise(1 - probabilities)
    return each.sum(-1)


def _surprise(probabilities: Tensor) -> Tensor:
    """−p ln p, of 0 as well, with a finite slope. torch 2.11 cannot write ``entr`` as ONNX."""
    return -probabilities * torch.log(probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny))


torch.export.register_dataclass(Prediction, serialized_type_name="tokenstn.Prediction")
