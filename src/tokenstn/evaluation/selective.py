"""Selective prediction: what is gained by answering only where the uncertainty is small.

All of it is one ranking, from the most to the least certain answer. Equal uncertainties have no order of their own, so
every figure here is the expectation over their random order: it does not depend on the order of the data. A ranking is
sorted once and then counted under any weights, which makes the bootstrap of 160,000 answers a matter of seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

POINTS = 101  # of a thinned curve: every percent of coverage

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Ranking:
    """M answers from the most to the least certain, in G steps of equal uncertainty.

    order ``(M,)``: positions of the answers in that order. wrong ``(M,)``: 0 or 1, in that order. ends ``(G,)``: where
    the last answer of each step stands.
    """

    order: Counts
    wrong: Counts
    ends: Counts

    @classmethod
    def of(cls, uncertainty: Tensor, wrong: Tensor) -> Ranking:
        """Uncertainties and whether the answers are wrong, of equal shape; any shape is flattened."""
        if uncertainty.shape != wrong.shape:
            raise ValueError(
                f"each answer needs an uncertainty and whether it is wrong, got shapes {tuple(uncertainty.shape)} and "
                f"{tuple(wrong.shape)}"
            )
        values = uncertainty.detach().cpu().double().numpy().ravel()
        if not len(values):
            raise ValueError("there are no answers to rank: pass at least one")
        if np.isnan(values).any():
            raise ValueError(f"{np.isnan(values).sum()} of {len(values)} uncertainties are NaN: they cannot be ranked")
        order = np.argsort(values, kind="stable")
        ends = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))
        return cls(order, wrong.detach().cpu().bool().numpy().ravel()[order].astype(np.int64), ends)

    def counts(self, weights: Counts | None = None) -> tuple[Counts, Counts]:
        """How many answers are accepted up to each step, and how many of those are wrong: two of ``(G,)``.

        weights ``(M,)``: how often each answer counts, in the order of the data; once when None.
        """
        if weights is None:
            return self.ends + 1, np.cumsum(self.wrong)[self.ends]
        ranked = weights[self.order].astype(np.int64, copy=False)
        accepted, errors = np.cumsum(ranked), np.cumsum(ranked * self.wrong)
        return (accepted, errors) if len(self.ends) == len(accepted) else (accepted[self.ends], errors[self.ends])

    def auroc(self, weights: Counts | None = None) -> float | None:
        """See :func:`auroc`."""
        return auroc_of_counts(*self.counts(weights))

    def aurc(self, weights: Counts | None = None) -> float:
        """See :func:`aurc`."""
        return aurc_of_counts(*self.counts(weights))


def auroc(uncertainty: Tensor, wrong: Tensor) -> float | None:
    """Probability that a wrong answer is more uncertain than a right one, ties counted half; ``(M,)`` both.

    None where there are no wrong answers, or none but wrong ones.

    >>> auroc(torch.tensor([0.1, 0.2, 0.2, 0.9]), torch.tensor([False, False, True, True]))
    0.875
    """
    return Ranking.of(uncertainty, wrong).auroc()


def risk_coverage(uncertainty: Tensor, wrong: Tensor) -> tuple[Tensor, Tensor]:
    """Risk when only the k most certain of M answers are given, for k = 1 … M: coverages k/M and risks, ``(M,)`` each.

    >>> coverages, risks = risk_coverage(torch.tensor([0.3, 0.1, 0.2, 0.2]), torch.tensor([True, False, True, False]))
    >>> risks.tolist()                   # the second and third are equally uncertain: half an error each
    [0.0, 0.25, 0.3333333333333333, 0.5]
    """
    accepted, errors = Ranking.of(uncertainty, wrong).counts()
    total = int(accepted[-1])
    k = np.arange(1, total + 1)
    # between two steps the expected number of errors grows linearly
    expected = np.interp(k, np.append(0, accepted), np.append(0, errors))
    return torch.from_numpy(k / total), torch.from_numpy(expected / k)


def aurc(uncertainty: Tensor, wrong: Tensor) -> float:
    """Area under the risk–coverage curve: the mean of its M risks. Smaller is better, the error rate is no skill.

    >>> aurc(torch.tensor([0.1, 0.2]), torch.tensor([False, True]))
    0.25
    """
    return Ranking.of(uncertainty, wrong).aurc()


def excess_aurc(uncertainty: Tensor, wrong: Tensor) -> float:
    """AURC above that of the oracle, which rejects the wrong answers first; 0 is perfect.

    >>> excess_aurc(torch.tensor([0.1, 0.2]), torch.tensor([False, True]))
    0.0
    """
    ranking = Ranking.of(uncertainty, wrong)
    return ranking.aurc() - oracle_aurc(len(ranking.order), int(ranking.wrong.sum()))


def oracle_aurc(answers: int, errors: int) -> float:
    """AURC of the oracle for so many answers and errors: no error until only errors are left.

    >>> oracle_aurc(2, 1)
    0.25
    """
    right = answers - errors
    return aurc_of_counts(np.array([right, answers]), np.array([0, errors]))


def thin_curve(coverages: Tensor, risks: Tensor, points: int = POINTS) -> tuple[tuple[float, float], ...]:
    """At most ``points`` (coverage, risk) pairs of a curve ``(M,)``, evenly spaced, with both ends.

    >>> thin_curve(torch.tensor([0.25, 0.5, 0.75, 1.0]), torch.tensor([0.0, 0.0, 0.0, 0.25]), points=2)
    ((0.25, 0.0), (1.0, 0.25))
    """
    if points < 2:
        raise ValueError(f"points={points}: a curve has at least its two ends")
    chosen = torch.linspace(0, len(coverages) - 1, min(points, len(coverages)), dtype=torch.float64).round().long()
    return tuple(zip(coverages[chosen].tolist(), risks[chosen].tolist(), strict=True))


def auroc_of_counts(accepted: Counts, errors: Counts) -> float | None:
    """AUROC from what :meth:`Ranking.counts` gives (Mann and Whitney)."""
    wrong, right = int(errors[-1]), int(accepted[-1] - errors[-1])
    if not wrong or not right:
        return None
    rights = accepted - errors
    before = np.append(0, rights[:-1])
    # a step's errors are above all rights before it and level with its own
    return float(np.dot(np.diff(errors, prepend=0), (before + rights) / 2) / (wrong * right))


def aurc_of_counts(accepted: Counts, errors: Counts) -> float:
    """AURC from what :meth:`Ranking.counts` gives.

    In a step from a to b answers with error rate r, the risk at k is (E + (k − a) r)/k = r + (E − a r)/k with E errors
    before it; summed over k it needs only the harmonic numbers of a and b.
    """
    total = int(accepted[-1])
    start, before = np.append(0, accepted[:-1]), np.append(0, errors[:-1])
    count, new = accepted - start, errors - before
    rate = new / np.maximum(count, 1)
    harmonic = _harmonic(total)
    return float((errors[-1] + np.dot(before - start * rate, harmonic[accepted] - harmonic[start])) / total)


@lru_cache(maxsize=2)
def _harmonic(n: int) -> NDArray[np.float64]:
    """Harmonic numbers 0 … n, ``(n + 1,)``. Kept, because every draw of a bootstrap asks for the same."""
    return np.append(0.0, np.cumsum(1 / np.arange(1, n + 1)))
