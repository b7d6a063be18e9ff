"""From the answers on several views to one answer, how much they disagree, and the two flags."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tokenstn.models.combination import named_uncertainties
from tokenstn.models.prediction import answer_confidence, answer_entropy
from tokenstn.models.thresholds import Thresholds


def average(answers: Tensor, weights: Tensor, multi_label: bool) -> tuple[Tensor, Tensor]:
    """Mean answer ``(B, classes)`` and mean entropy ``(B,)`` of ``answers (B · V, classes)``; ``weights (B, V)``.

    The answers on the views of one image stand together.
    """
    each = answers.unflatten(0, weights.shape)
    doubt = (weights * answer_entropy(each, multi_label)).sum(1)
    return (weights.unsqueeze(-1) * each).sum(1), doubt


def disagreement_of(probabilities: Tensor, doubt: Tensor, multi_label: bool) -> Tensor:
    """The mutual information of view and class in nats, ``(B,)``: entropy of the mean answer less the mean entropy."""
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
) -> tuple[Tensor | None, Tensor | None]:
    """``pose_ambiguous`` and ``class_uncertain``, ``(B,)`` bool each; None without thresholds for it."""
    if limits is None:
        return None, None
    doubts = doubts_of(probabilities, disagreement, entropy, multi_label)
    return limits.pose_ambiguous(entropy), limits.class_uncertain(doubts)
