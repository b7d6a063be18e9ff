"""The terms of the loss that do not need a known pose: classification of the averaged probabilities, and the KL."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tokenstn.posteriors import Posterior


def classification_loss(
    probabilities: Tensor, target: Tensor, multi_label: bool = False, label_smoothing: float = 0.0
) -> Tensor:
    """Negative log-likelihood of probabilities that were averaged over views; a scalar, the mean over the batch.

    Args:
        probabilities: ``(B, classes)``, rows that sum to 1; with ``multi_label`` each entry on its own in [0, 1].
        target: ``(B,)`` class indices; with ``multi_label`` ``(B, classes)`` of zeros and ones, and the loss is the
            binary cross-entropy, a mean over labels too.
        label_smoothing: ε in [0, 1): the target is mixed with the uniform distribution over the classes (over yes and
            no for each label), as ``torch.nn.functional.cross_entropy`` does it.

    A probability of exactly 0 costs 87 nats and is finite, gradient included. That of 1 for a label which an image does
    not have costs 17, which is as near to 1 as float32 comes, and has no gradient: where there are logits, as of a
    single view, ``baselines.likelihood.mixture_loss`` loses nothing.

    >>> p = torch.tensor([[0.25, 0.75]])
    >>> round(classification_loss(p, torch.tensor([1])).item(), 4)       # −ln 0.75
    0.2877
    """
    wanted = probabilities.shape if multi_label else probabilities.shape[:1]
    if target.shape != wanted:
        kind = "multi-label targets (B, classes)" if multi_label else "class indices (B,)"
        raise ValueError(
            f"probabilities of shape {tuple(probabilities.shape)} go with {kind}, got targets of shape "
            f"{tuple(target.shape)}"
        )
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"label_smoothing={label_smoothing}: from 0 up to, but not including, 1")
    if multi_label:
        yes = target.to(probabilities.dtype) * (1 - label_smoothing) + label_smoothing / 2
        return -(yes * _safe_log(probabilities) + (1 - yes) * _log_of_rest(probabilities)).mean()
    log = _safe_log(probabilities)
    chosen = log.gather(1, target.long().unsqueeze(1)).squeeze(1)
    return -((1 - label_smoothing) * chosen + label_smoothing * log.mean(1)).mean()


def kl_loss(posteriors: Mapping[str, Posterior]) -> Tensor:
    """The KL of every primitive to its prior, summed over the primitives, averaged over the batch; a scalar.

    The means are detached inside ``Posterior.kl``: this acts on the uncertainty only. Without a posterior it is 0.
    """
    if not posteriors:
        return torch.zeros(())
    return torch.stack([posterior.kl().mean() for posterior in posteriors.values()]).sum()


def _safe_log(probabilities: Tensor) -> Tensor:
    """ln p in fp32 at least. The floor is the smallest normal number: one that a good prediction could reach would
    take the gradient from exactly the images that are wrong."""
    return torch.log(_wide(probabilities).clamp_min(torch.finfo(torch.float32).tiny))


def _log_of_rest(probabilities: Tensor) -> Tensor:
    """ln (1 − p) in fp32 at least. The floor is half a step below 1: what was rounded to 1 is no surer."""
    wide = _wide(probabilities)
    return torch.log((1 - wide).clamp_min(torch.finfo(wide.dtype).eps / 4))


def _wide(probabilities: Tensor) -> Tensor:
    return probabilities if probabilities.dtype == torch.float64 else probabilities.float()
