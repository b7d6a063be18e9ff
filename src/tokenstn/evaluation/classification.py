"""How well a classifier tells classes apart: AUC, F1, sensitivity and specificity, exactly or from a stream.

Everything is one against the rest: a column of scores for each class, or only the second of two classes, or one for
each label. A class that does not occur has no sensitivity and no AUC, and is left out of the averages; F1 also takes in
classes that were only answered, as scikit-learn does. Where nothing defines it, a share is 0 and an AUC None.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tokenstn.evaluation.results import Discrimination
from tokenstn.evaluation.selective import auroc

OPERATING_POINT = 0.5
BINS = 2048
SMALLEST, LARGEST = 2.0**-126, 1 - 2.0**-24  # of the probabilities in float32: normal, and below 1


def discrimination(
    probabilities: Tensor, target: Tensor, multi_label: bool = False, threshold: float | None = None
) -> Discrimination:
    """Macro averages over the classes that occur, one against the rest; for two classes those of the second one.

    Args:
        probabilities: ``(N, C)``.
        target: ``(N,)`` class indices; with ``multi_label`` ``(N, C)`` of zeros and ones.
        threshold: above it the second of two classes, or a label, is the answer; ½ when None. Of three and more
            classes the most probable one is the answer, and there is no threshold.

    >>> p = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    >>> discrimination(p, torch.tensor([0, 0, 1, 1]))
    Discrimination(auc=0.75, f1=0.5, sensitivity=0.5, specificity=0.5, threshold=0.5)
    """
    threshold = _operating_point(probabilities.shape[-1], multi_label, threshold)
    _require(probabilities, target, multi_label)
    scores, truth, answers = _one_against_rest(probabilities, target, multi_label, threshold)
    occurs = truth.any(0) & ~truth.all(0)
    areas = [auroc(scores[:, k], truth[:, k]) for k in occurs.nonzero().flatten().tolist()]
    counts = _counts(truth, answers)
    return _discrimination(counts, [area for area in areas if area is not None], threshold)


class OrbitDiscrimination:
    """The same from a stream of answers, in memory that does not grow with their number.

    Confusion counts are exact. The AUC comes from histograms with bins of equal width in the logit, and is off by at
    most half the share of pairs that meet in a bin: some 0.001. Equal bins in the probability would not do: among
    1,000 classes nearly all probabilities lie in the first one.

    >>> stream = OrbitDiscrimination(classes=2)
    >>> stream.update(torch.tensor([[0.9, 0.1], [0.4, 0.6]]), torch.tensor([0, 0]))
    >>> stream.update(torch.tensor([[0.7, 0.3], [0.2, 0.8]]), torch.tensor([1, 1]))
    >>> stream.compute()
    Discrimination(auc=0.75, f1=0.5, sensitivity=0.5, specificity=0.5, threshold=0.5)
    """

    def __init__(self, classes: int, multi_label: bool = False, threshold: float | None = None) -> None:
        self.classes = classes
        self.multi_label = multi_label
        self.threshold = _operating_point(classes, multi_label, threshold)
        columns = 1 if classes == 2 and not multi_label else classes
        self._counts = torch.zeros(4, columns, dtype=torch.int64)
        self._all = torch.zeros(columns, BINS, dtype=torch.int64)
        self._positive = torch.zeros(columns, BINS, dtype=torch.int64)

    def update(self, probabilities: Tensor, target: Tensor, check: bool = True) -> None:
        """Take in answers, ``(B, C)`` and ``(B,)``, or ``(B, C)`` for multi-label data; on any device.

        Without ``check`` nothing waits for the device, and it is not said that an answer is none or a label unknown.
        """
        if probabilities.ndim != 2 or probabilities.shape[1] != self.classes:
            raise ValueError(f"probabilities (B, {self.classes}) are expected, got shape {tuple(probabilities.shape)}")
        if check:
            _require(probabilities, target, self.multi_label)
        scores, truth, answers = _one_against_rest(probabilities, target, self.multi_label, self.threshold)
        device = scores.device
        self._counts, self._all, self._positive = (
            held.to(device) for held in (self._counts, self._all, self._positive)
        )
        self._counts += _counts(truth, answers)
        low, high = math.log(SMALLEST), -math.log(1 - LARGEST)
        place = (torch.logit(scores.double().clamp(SMALLEST, LARGEST)) - low) / (high - low)
        bins = (place * BINS).long().clamp(0, BINS - 1) + BINS * torch.arange(scores.shape[1], device=device)
        _add(self._all, bins, torch.ones_like(truth))
        _add(self._positive, bins, truth)

    def compute(self) -> Discrimination:
        """What has been taken in so far."""
        if not int(self._counts[:, :1].sum()):
            raise ValueError("no answers have been taken in: call update first")
        positive, negative = self._positive.double(), (self._all - self._positive).double()
        pairs = positive.sum(1) * negative.sum(1)
        below = negative.cumsum(1) - negative / 2  # those in the same bin count half
        areas = ((positive * below).sum(1) / pairs)[pairs > 0]
        return _discrimination(self._counts, areas.tolist(), self.threshold)


def _operating_point(classes: int, multi_label: bool, threshold: float | None) -> float | None:
    if not multi_label and classes != 2:
        if threshold is not None:
            raise ValueError(
                f"threshold={threshold}: of {classes} classes the most probable one is the answer; a threshold goes "
                "with two classes or with several labels"
            )
        return None
    threshold = OPERATING_POINT if threshold is None else threshold
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold={threshold}: a probability from 0 to 1")
    return threshold


def _require(probabilities: Tensor, target: Tensor, multi_label: bool) -> None:
    """Answers that are numbers, and as many labels that there are."""
    wanted = probabilities.shape if multi_label else probabilities.shape[:1]
    if probabilities.ndim != 2 or not len(probabilities) or target.shape != wanted:
        kind = "targets (N, C)" if multi_label else "class indices (N,)"
        raise ValueError(
            f"probabilities (N, C) of at least one answer go with {kind}, got shapes {tuple(probabilities.shape)} and "
            f"{tuple(target.shape)}"
        )
    if probabilities.isnan().any():
        raise ValueError(f"{int(probabilities.isnan().any(1).sum())} of {len(probabilities)} answers have NaN in them")
    classes = probabilities.shape[1]
    if not multi_label and not 0 <= int(target.min()) <= int(target.max()) < classes:
        raise ValueError(
            f"class indices from {int(target.min())} to {int(target.max())} do not match a classifier of {classes} "
            f"classes, which are numbered from 0 to {classes - 1}"
        )


def _one_against_rest(
    probabilities: Tensor, target: Tensor, multi_label: bool, threshold: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, truth and answers ``(N, K)``: K is 1 for two classes, otherwise the number of classes or labels."""
    probabilities, target = probabilities.detach(), target.detach().to(probabilities.device)
    cut = OPERATING_POINT if threshold is None else threshold
    if multi_label:
        return probabilities, target.bool(), probabilities > cut
    classes = probabilities.shape[1]
    if classes == 2:
        second = probabilities[:, 1:]
        return second, target.unsqueeze(1) == 1, second > cut
    numbers = torch.arange(classes, device=target.device)
    return probabilities, target.unsqueeze(1) == numbers, probabilities.argmax(1, keepdim=True) == numbers


def _counts(truth: Tensor, answers: Tensor) -> Tensor:
    """True and false positives, false and true negatives of each column, ``(4, K)``."""
    kinds = (truth & answers, ~truth & answers, truth & ~answers, ~truth & ~answers)
    return torch.stack([kind.sum(0) for kind in kinds])


def _discrimination(counts: Tensor, areas: list[float], threshold: float | None) -> Discrimination:
    tp, fp, fn, tn = counts.double().cpu()
    occurs = (tp + fn > 0) if len(tp) > 1 else torch.ones(1, dtype=torch.bool)
    return Discrimination(
        auc=sum(areas) / len(areas) if areas else None,
        f1=_macro(2 * tp, 2 * tp + fp + fn),
        sensitivity=_macro(tp[occurs], (tp + fn)[occurs]),
        specificity=_macro(tn[occurs], (tn + fp)[occurs]),
        threshold=threshold,
    )


def _macro(part: Tensor, whole: Tensor) -> float | None:
    """Mean of the shares that are defined; None where none is."""
    defined = whole > 0
    return (part[defined] / whole[defined]).mean().item() if bool(defined.any()) else None


def _add(histogram: Tensor, places: Tensor, counted: Tensor) -> None:
    """Count those places of the flattened histogram that count, in it."""
    histogram.view(-1).scatter_add_(0, places.flatten(), counted.flatten().long())
