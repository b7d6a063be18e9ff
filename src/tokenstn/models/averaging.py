"""From the answers on several views to one answer, how much they disagree, and the two flags."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tokenstn.models.combination import named_uncertainties
from tokenstn.models.prediction import answer_confidence, answer_entropy
from tokenstn.models.thresholds import Thresholds

SAME = 0.02  # in normalised units, in which a grey level is about 0.015


def average(answers: Tensor, weights: Tensor, multi_label: bool) -> tuple[Tensor, Tensor]:
    """Mean answer ``(B, classes)`` and disagreement ``(B,)`` of ``answers (B · V, classes)``; ``weights (B, V)``.

    The answers on the views of one image stand together.
    """
    if weights.shape[1] == 1:  # what is left of the general case, in two operations instead of ten
        return weights * answers, 0 * weights.squeeze(1)
    each = answers.unflatten(0, weights.shape)
    doubt = (weights * answer_entropy(each, multi_label)).sum(1)
    mean = (weights.unsqueeze(-1) * each).sum(1)
    return mean, disagreement_of(mean, doubt, multi_label)


def disagreement_of(probabilities: Tensor, doubt: Tensor, multi_label: bool) -> Tensor:
    """The mutual information of view and class in nats, ``(B,)``: entropy of the mean answer less the mean entropy.

    ``doubt (B,)``: the mean entropy of the views' own answers.
    """
    return (answer_entropy(probabilities, multi_label) - doubt).clamp_min(0.0)


def doubts_of(
    probabilities: Tensor, disagreement: Tensor, entropy: Mapping[str, Tensor], multi_label: bool
) -> dict[str, Tensor]:
    """Every kind of doubt about answers ``(B, classes)`` by its name, ``(B,)`` each."""
    confidence, mixed = answer_confidence(probabilities, multi_label), answer_entropy(probabilities, multi_label)
    return named_uncertainties(confidence, mixed, disagreement, entropy)


def flags_of(
    probabilities: Tensor,
    disagreement: Tensor,
    entropy: Mapping[str, Tensor],
    limits: Thresholds | None,
    multi_label: bool,
    images: Tensor | None,
) -> tuple[Tensor | None, Tensor | None]:
    """``pose_ambiguous`` and ``class_uncertain``, ``(B,)`` bool each; None without thresholds for it.

    Images ``(B, C, H, W)``, normalised, that show nothing raise both: a network may be sure of anything there.
    """
    if limits is None or images is None:
        return None, None
    doubts = doubts_of(probabilities, disagreement, entropy, multi_label)
    flags, blank = (limits.pose_ambiguous(entropy), limits.class_uncertain(doubts)), shows_nothing(images)
    pose_ambiguous, class_uncertain = (None if flag is None else flag | blank for flag in flags)
    return pose_ambiguous, class_uncertain


def shows_nothing(images: Tensor) -> Tensor:
    """Which images ``(B, C, H, W)``, normalised, have the same colour all over, give or take a grey level; ``(B,)``.

    >>> import torch
    >>> shows_nothing(torch.stack((torch.full((3, 4, 4), 2.0), torch.randn(3, 4, 4))))
    tensor([ True, False])
    """
    return (images.amax((-2, -1)) - images.amin((-2, -1))).amax(-1) <= SAME
