"""Confidence intervals for answers that come in clusters: the copies of an image, the images of a patient.

Copies of one image succeed and fail together, so whole clusters are drawn with replacement (the cluster bootstrap,
percentile intervals). A draw is written as how often each answer counts, which spares copying the answers. With a
single cluster every draw is the same and the interval is a point: nothing is known about the spread then. A share that
is 0 or 1 in the data has no spread to draw from either; ``share_interval`` is for those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tokenstn.evaluation.results import Interval

LEVEL = 0.95  # as in results.Interval

Statistic = Callable[[NDArray[np.int64]], float | None]


def cluster_bootstrap(statistic: Statistic, clusters: Tensor, draws: int = 1000, seed: int = 0) -> Interval | None:
    """A statistic of M answers with its interval; None where it is not defined on the answers themselves.

    Args:
        statistic: takes how often each answer counts, an int64 array ``(M,)`` of numpy, and gives a number, or None
            where it is not defined; such draws are left out. :class:`tokenstn.evaluation.selective.Ranking` has two.
        clusters: ``(M,)`` integers, equal for answers that belong together.

    >>> values = torch.tensor([1.0, 1.0, 0.0, 0.0])
    >>> mean = lambda weights: float((weights * values.numpy()).sum() / weights.sum())
    >>> cluster_bootstrap(mean, torch.tensor([0, 0, 1, 1]), draws=200)
    Interval(value=0.5, low=0.0, high=1.0)
    """
    value = statistic(np.ones(clusters.numel(), dtype=np.int64))
    if value is None:
        return None
    return percentile_interval(value, [statistic(weights) for weights in resampled_weights(clusters, draws, seed)])


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


def paired_difference(a: Tensor, b: Tensor, clusters: Tensor, draws: int = 1000, seed: int = 0) -> Interval:
    """Mean of a minus mean of b on the same answers, with its interval; shapes as in :func:`cluster_mean_interval`.

    What is hard for both cancels, so this interval is narrower than the two intervals suggest.

    >>> paired_difference(torch.tensor([1.0, 1, 0, 1]), torch.tensor([1.0, 0, 0, 0]), torch.arange(4)).value
    0.5
    """
    if a.shape != b.shape:
        raise ValueError(
            f"a paired comparison needs the same answers on both sides, got shapes {tuple(a.shape)} and "
            f"{tuple(b.shape)}: compare runs on the same images and the same group"
        )
    return cluster_mean_interval(a.double() - b.double(), clusters, draws, seed)


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
