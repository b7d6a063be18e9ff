"""Confidence intervals for answers that come in clusters: the copies of an image, the images of a patient.

Copies of one image succeed and fail together, so whole clusters count as one observation each. Shares and curves get
percentile intervals of the cluster bootstrap: clusters are drawn with replacement, a draw written as how often each
answer counts, which spares copying the answers. A difference of two means gets Student's interval over the clusters:
it needs no draws, so that no seed decides whether it leaves out 0, and is wider the fewer clusters there are, and the
more of the answers are those of a few of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from tokenstn.evaluation.results import Interval

LEVEL = 0.95  # as in results.Interval


def cluster_mean_interval(values: Tensor, clusters: Tensor, draws: int = 1000, seed: int = 0) -> Interval:
    """The mean of values with its interval, from the sums of the clusters alone.

    Args:
        values: any shape, such as ``(E, N)`` for N images under E elements.
        clusters: integers of a shape that goes with it, such as ``(N,)``.

    >>> right = torch.tensor([[1, 1, 0, 1], [1, 1, 0, 1]])              # 2 elements, 4 images
    >>> cluster_mean_interval(right, torch.arange(4), draws=200)
    Interval(value=0.75, low=0.25, high=1.0)
    """
    flat = values.detach().cpu().double().numpy().ravel()
    inverse, count = _numbered(_spread_over(clusters, values.shape))
    sums, sizes = np.bincount(inverse, flat, minlength=count), np.bincount(inverse, minlength=count)
    means = [float(np.dot(n, sums) / np.dot(n, sizes)) for n in _multiplicities(count, draws, seed)]
    return percentile_interval(float(flat.mean()), means)


def share_interval(answers: Tensor, clusters: Tensor, draws: int = 1000, seed: int = 0) -> Interval:
    """The share of answers, each from 0 to 1, with its interval; shapes as in :func:`cluster_mean_interval`.

    Where all are 1, or all are 0, there is nothing to draw from: the other end is where a cluster that failed would
    still be missing in one of 40 samples, as Clopper and Pearson have it. Shares near them reach as far at least.

    >>> share_interval(torch.ones(18), torch.arange(18))
    Interval(value=1.0, low=0.8147, high=1.0)
    """
    found = cluster_mean_interval(answers, clusters, draws, seed)
    _, count = _numbered(_spread_over(clusters, answers.shape))
    reached = round(((1 - LEVEL) / 2) ** (1 / count), 4)
    return Interval(found.value, min(found.low, reached), max(found.high, round(1 - reached, 4)))


def wilson_interval(shares: Tensor, counts: Tensor, deviations: float = 1.96) -> tuple[Tensor, Tensor]:
    """Both ends of Wilson's interval, of 95 % as it comes, for shares of so many independent answers; any shapes.

    It needs no answers, only how many there were, and none of them has to be wrong.

    >>> low, high = wilson_interval(torch.tensor([0.8, 1.0]), torch.tensor(20))
    >>> [round(end, 2) for end in low.tolist()], [round(end, 2) for end in high.tolist()]
    ([0.58, 0.84], [0.92, 1.0])
    """
    z, n = deviations, counts.double()
    centre = shares + z**2 / (2 * n)
    margin = z * torch.sqrt(shares * (1 - shares) / n + z**2 / (4 * n**2))
    return (centre - margin) / (1 + z**2 / n), (centre + margin) / (1 + z**2 / n)


def paired_difference(a: Tensor, b: Tensor, clusters: Tensor) -> Interval:
    """Mean of a minus mean of b on the same answers, each from 0 to 1; shapes as in :func:`cluster_mean_interval`.

    What is hard for both cancels, so this interval is narrower than the two intervals suggest. With one cluster nothing
    is known about it. Where all differ by the same, as by nothing, another cluster may not: it reaches as far as that
    of a share, ``share_interval``.

    >>> paired_difference(torch.tensor([1.0, 1, 0, 1]), torch.tensor([1.0, 0, 0, 0]), torch.arange(4)).value
    0.5
    """
    if a.shape != b.shape:
        raise ValueError(
            f"a paired comparison needs the same answers on both sides, got shapes {tuple(a.shape)} and "
            f"{tuple(b.shape)}: compare runs on the same images and the same group"
        )
    apart = a.double() - b.double()
    inverse, count = _numbered(_spread_over(clusters, a.shape))
    value = apart.mean().item()
    if count == 1:
        half = math.inf
    elif bool((apart == apart.flatten()[0]).all()):
        half = 1 - ((1 - LEVEL) / 2) ** (1 / count)
    else:
        sizes = np.bincount(inverse, minlength=count)
        like = sizes.sum() ** 2 / np.square(sizes).sum()  # so many clusters of one size would say as much
        half = float(stats.t.ppf((1 + LEVEL) / 2, max(like - 1, 1.0))) * standard_error(apart, clusters)
    return Interval(value, max(value - half, -1.0), min(value + half, 1.0))


def standard_error(values: Tensor, clusters: Tensor) -> float:
    """Of the mean of values, any shape, of which those with the same number in ``clusters`` are not independent.

    >>> values = torch.tensor([1.0, 2.0, 3.0, 4.0])
    >>> round(standard_error(values, torch.arange(4)), 4), round(standard_error(values, torch.tensor([0, 0, 1, 1])), 4)
    (0.6455, 1.0)
    """
    away = (values.double() - values.double().mean()).cpu().numpy().ravel()
    inverse, count = _numbered(_spread_over(clusters, values.shape))
    if count < 2:
        return math.inf
    sums = np.bincount(inverse, away, minlength=count)
    return math.sqrt(np.square(sums).sum() * count / (count - 1)) / len(away)


def resampled_weights(clusters: Tensor, draws: int, seed: int = 0) -> Iterator[NDArray[np.int64]]:
    """For each draw how often each answer counts, ``(M,)``; equal within a cluster."""
    inverse, count = _numbered(clusters)
    for multiplicity in _multiplicities(count, draws, seed):
        yield multiplicity[inverse]


def percentile_interval(value: float, samples: Sequence[float | None]) -> Interval:
    """An estimate between the 2.5 % and 97.5 % quantiles of its draws; None among the draws are left out."""
    defined = [sample for sample in samples if sample is not None]
    if not defined:
        return Interval(value, value, value)
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high))


def _multiplicities(count: int, draws: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """How often each of so many clusters is drawn, ``(count,)`` for each draw."""
    if draws < 1:
        raise ValueError(f"draws={draws}: a bootstrap needs at least one, and some hundreds to be smooth")
    generator = np.random.default_rng(seed)
    for _ in range(draws):
        yield np.bincount(generator.integers(count, size=count), minlength=count)


def _numbered(clusters: Tensor) -> tuple[NDArray[np.int64], int]:
    """The clusters as numbers 0 … count − 1, and how many there are."""
    if not clusters.numel():
        raise ValueError("there are no answers to draw from: pass at least one")
    names, inverse = np.unique(clusters.detach().cpu().numpy().ravel(), return_inverse=True)
    return inverse.ravel().astype(np.int64), len(names)


def _spread_over(clusters: Tensor, shape: torch.Size) -> Tensor:
    try:
        return clusters.expand(shape)
    except RuntimeError:
        raise ValueError(
            f"clusters of shape {tuple(clusters.shape)} do not go with values of shape {tuple(shape)}: one cluster "
            "for each value, or for each image along the last axis"
        ) from None
