"""Calibration: of the answers given with 80 % confidence, are 80 % right?"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from tokenstn.evaluation.results import Calibration, ReliabilityBin

BINS = 15
ROUNDING = 1e-4  # averaged probabilities may pass 1 by this much


def calibration(confidence: Tensor, correct: Tensor, nll: Tensor, brier: Tensor, bins: int = BINS) -> Calibration:
    """Expected calibration error, its reliability diagram, and the means of two proper scores over M answers.

    Args:
        confidence: ``(M,)`` probability of the predicted class.
        correct: ``(M,)`` bool.
        nll, brier: ``(M,)`` scores of each answer, −ln of the true class' probability and the squared distance to it.
        bins: of equal width, each open below and closed above. Those without answers are left out of the result.

    >>> c = calibration(torch.tensor([0.9, 0.9]), torch.tensor([True, False]), torch.ones(2), torch.ones(2), bins=5)
    >>> round(c.ece, 4), len(c.bins), c.bins[0].low, c.bins[0].accuracy
    (0.4, 1, 0.8, 0.5)
    """
    if bins < 1:
        raise ValueError(f"bins={bins}: at least one")
    shapes = {"confidence": confidence, "correct": correct, "nll": nll, "brier": brier}
    if confidence.ndim != 1 or len({tuple(values.shape) for values in shapes.values()}) > 1:
        said = ", ".join(f"{name} {tuple(values.shape)}" for name, values in shapes.items())
        raise ValueError(f"calibration needs one value of each kind for every answer, shapes (M,), got {said}")
    if not len(confidence):
        raise ValueError("calibration needs answers, got none")
    sure, right = (values.detach().cpu().double().numpy() for values in (confidence, correct))
    if not ((sure >= -ROUNDING) & (sure <= 1 + ROUNDING)).all():
        raise ValueError(f"confidences are probabilities from 0 to 1, got {sure.min():.4g} to {sure.max():.4g}")
    edges = np.linspace(0, 1, bins + 1)
    which = np.clip(np.searchsorted(edges, sure, side="left") - 1, 0, bins - 1)
    counts = np.bincount(which, minlength=bins)
    some = np.maximum(counts, 1)
    confidences = np.bincount(which, sure, minlength=bins) / some
    accuracies = np.bincount(which, right, minlength=bins) / some
    return Calibration(
        ece=float(np.dot(counts, np.abs(confidences - accuracies)) / len(sure)),
        nll=nll.double().mean().item(),
        brier=brier.double().mean().item(),
        bins=tuple(
            ReliabilityBin(float(low), float(high), int(count), float(mean), float(share))
            for low, high, count, mean, share in zip(
                edges[:-1], edges[1:], counts, confidences, accuracies, strict=True
            )
            if count
        ),
    )
