"""The classification loss of answers that are averaged over views, computed from their logits.

Probabilities are averaged, not logits, so the log-likelihood of a mixture of V views is a log-mean-exp (P-STN, Schwöbel
et al. 2022, write it so). Staying in logarithms keeps its gradient where a probability is too small for a float.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def mixture_loss(logits: Tensor, labels: Tensor, multi_label: bool = False, label_smoothing: float = 0.0) -> Tensor:
    """Negative log-likelihood of the averaged probabilities, a scalar: the mean over the batch.

    Args:
        logits: ``(B, V, classes)``, one answer for each view.
        labels: ``(B,)`` class indices; with ``multi_label`` ``(B, classes)`` of zeros and ones, and the loss is the
            binary cross-entropy, a mean over labels too.
        label_smoothing: ε in [0, 1): the target is mixed with the uniform distribution over the classes (over yes and
            no for each label).

    >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 100.0]]])      # ½ and 1 for the second class: ¾ together
    >>> round(mixture_loss(logits, torch.tensor([1])).item(), 4)
    0.2877
    """
    batch, _, classes = logits.shape
    wanted = (batch, classes) if multi_label else (batch,)
    if tuple(labels.shape) != wanted:
        kind = "multi-label targets" if multi_label else "class indices"
        raise ValueError(
            f"{batch} images with {classes} classes go with {kind} of shape {wanted}, got labels of shape "
            f"{tuple(labels.shape)}"
        )
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"label_smoothing={label_smoothing}: from 0 up to, but not including, 1")
    logits = logits.float()
    if multi_label:
        yes = labels.to(logits.dtype) * (1 - label_smoothing) + label_smoothing / 2
        said_yes, said_no = log_mean_exp(F.logsigmoid(logits)), log_mean_exp(F.logsigmoid(-logits))
        return -(yes * said_yes + (1 - yes) * said_no).mean()
    # logarithms of probabilities are logits of themselves: the softmax inside changes nothing
    return F.cross_entropy(log_mean_exp(logits.log_softmax(-1)), labels.long(), label_smoothing=label_smoothing)


def log_mean_exp(values: Tensor) -> Tensor:
    """ln of the mean of exp over the views: ``(B, V, …)`` → ``(B, …)``."""
    return torch.logsumexp(values, 1) - math.log(values.shape[1])
