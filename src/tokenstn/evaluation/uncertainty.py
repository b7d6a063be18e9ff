"""Which uncertainty to trust: how well each tells wrong answers, and poses that did not follow, from right ones.

Uncertainties are larger for less certain answers: 1 − confidence, entropies, disagreement between views. Their
combination is a logistic regression for "this answer is wrong", fitted on one half of the images (:func:`halves`) and
used and judged on the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tokenstn.evaluation.intervals import percentile_interval, resampled_weights
from tokenstn.evaluation.results import UncertaintyScore
from tokenstn.evaluation.selective import (
    Ranking,
    aurc_of_counts,
    auroc_of_counts,
    oracle_aurc,
    risk_coverage,
    thin_curve,
)
from tokenstn.models.combination import Combination, transformed

FOLDS = 5  # in which a few images are left out in turn
FEW = 1000  # clusters: with more, all uncertainties together lose nothing
DRAWS = 200  # 160,000 answers and eight uncertainties take some ten seconds


def uncertainty_scores(
    uncertainties: Mapping[str, Tensor],
    wrong: Tensor,
    pose_failed: Tensor | None = None,
    pose_mask: Tensor | None = None,
    groups: Tensor | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, UncertaintyScore]:
    """Judge each uncertainty on the answers to N images under E elements, with intervals clustered by image.

    Args:
        uncertainties: ``{name: (E, N)}``.
        wrong: ``(E, N)`` bool, the class is wrong.
        pose_failed: ``(E, N)`` bool, the pose did not follow the turn; pose_auroc is None without it.
        pose_mask: ``(E, N)`` bool, where that is known; all but element 0, with which the others are compared, if None.
        groups: ``(N,)`` integers, equal for images that belong together, such as those of a patient; each image is its
            own group when None.

    The same draws serve all uncertainties, so that their differences are not drowned in the noise of drawing.

    >>> wrong = torch.tensor([[False, False, True, True]])
    >>> score = uncertainty_scores({"good": torch.tensor([[0.1, 0.2, 0.8, 0.9]])}, wrong)["good"]
    >>> score.class_auroc.value, score.pose_auroc, score.excess_aurc
    (1.0, None, 0.0)
    """
    others = {"pose_failed": pose_failed, "pose_mask": pose_mask, **uncertainties}
    for name, values in others.items():
        if values is not None and (values.shape != wrong.shape or wrong.ndim != 2):
            raise ValueError(
                f"{name} has shape {tuple(values.shape)}, wrong has {tuple(wrong.shape)}: both are (E, N), E elements "
                "and N images"
            )
    images = torch.arange(wrong.shape[1]) if groups is None else groups.cpu()
    if images.shape != wrong.shape[1:]:
        raise ValueError(f"{wrong.shape[1]} images need as many groups, (N,), got shape {tuple(images.shape)}")
    classes = {name: Ranking.of(values, wrong) for name, values in uncertainties.items()}
    moved = _moved(wrong, pose_mask)
    chosen = moved.flatten().numpy()
    poses: dict[str, Ranking] = {}
    if pose_failed is not None and chosen.any():
        poses = {n: Ranking.of(values.cpu()[moved], pose_failed.cpu()[moved]) for n, values in uncertainties.items()}
    class_draws: dict[str, list[float | None]] = {name: [] for name in classes}
    pose_draws: dict[str, list[float | None]] = {name: [] for name in classes}
    aurc_draws: dict[str, list[float | None]] = {name: [] for name in classes}
    for weights in resampled_weights(images.expand(wrong.shape), draws, seed):
        for name, ranking in classes.items():
            counts = ranking.counts(weights)
            class_draws[name].append(auroc_of_counts(*counts))
            aurc_draws[name].append(aurc_of_counts(*counts))
        for name, ranking in poses.items():
            pose_draws[name].append(ranking.auroc(weights[chosen]) if weights[chosen].any() else None)
    scores = {}
    for name, ranking in classes.items():
        class_auroc, area = ranking.auroc(), ranking.aurc()
        pose_auroc = poses[name].auroc() if name in poses else None
        scores[name] = UncertaintyScore(
            class_auroc=None if class_auroc is None else percentile_interval(class_auroc, class_draws[name]),
            pose_auroc=None if pose_auroc is None else percentile_interval(pose_auroc, pose_draws[name]),
            aurc=percentile_interval(area, aurc_draws[name]),
            excess_aurc=area - oracle_aurc(len(ranking.order), int(ranking.wrong.sum())),
            curve=thin_curve(*risk_coverage(uncertainties[name], wrong)),
        )
    return scores


def _moved(wrong: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        return mask.bool().cpu()
    return torch.arange(len(wrong)).unsqueeze(1).expand(wrong.shape) > 0


def halves(images: int, seed: int = 0, groups: Tensor | None = None) -> Tensor:
    """A half of the images to fit on, True, and the other to use it on: ``(N,)`` bool. Groups ``(N,)`` stay whole.

    >>> halves(4, seed=0).sum().item()
    2
    """
    numbers = np.arange(images) if groups is None else np.unique(groups.cpu().numpy(), return_inverse=True)[1].ravel()
    if len(numbers) != images:
        raise ValueError(f"{images} images need as many groups, got {len(numbers)}")
    count = len(np.unique(numbers))
    order = np.random.default_rng(seed).permutation(count)
    return torch.from_numpy(np.isin(numbers, order[: (count + 1) // 2]))


def combine(uncertainties: Mapping[str, Tensor], wrong: Tensor, clusters: Tensor | None = None) -> Combination:
    """Fit the combination on answers of equal shape, such as ``{name: (E, N)}`` and ``(E, N)`` bool of half the images.

    Each uncertainty enters as it is or by its logarithm, whichever alone explains the errors better. One that does not
    vary gets no weight; without errors, or with none but errors, the combination is constant, (e + ½)/(n + 1).

    A few images, whose poses succeed and fail together, seem to be explained by many uncertainties at once: there, one
    alone gets all the weight if it says more of images that it was not fitted to. clusters: ``(N,)``, equal for images
    that belong together; each image is its own when None.

    >>> combined = combine({"doubt": torch.tensor([0.1, 0.2, 0.6, 0.7])}, torch.tensor([False, False, True, True]))
    >>> combined({"doubt": torch.tensor([0.1, 0.7])}).round(decimals=1).tolist()
    [0.2, 0.8]
    """
    if not uncertainties:
        raise ValueError("there is nothing to combine: pass at least one uncertainty")
    for name, values in uncertainties.items():
        if values.shape != wrong.shape or not values.numel():
            raise ValueError(f"{name} has shape {tuple(values.shape)}, the answers {tuple(wrong.shape)}: equal and > 0")
        if not values.isfinite().all():
            raise ValueError(
                f"{int((~values.isfinite()).sum())} values of {name} are not finite: nothing can be fitted"
            )
    errors = wrong.detach().cpu().bool().numpy().ravel()
    features = [_best_feature(values.detach().cpu(), errors) for values in uncertainties.values()]
    weights, intercept = [0.0] * len(features), math.log((errors.sum() + 0.5) / ((~errors).sum() + 0.5))
    varying = [i for i, feature in enumerate(features) if feature.values.any()]
    if varying and 0 < errors.sum() < len(errors):
        images = torch.arange(wrong.shape[-1]) if clusters is None else clusters.cpu()
        used = _worth_using([features[i].values for i in varying], errors, images.expand(wrong.shape).numpy().ravel())
        varying = [varying[place] for place in used]
        model = _regression(np.stack([features[i].values for i in varying], 1), errors)
        intercept = float(model.intercept_[0])
        for i, weight in zip(varying, model.coef_[0], strict=True):
            weights[i] = float(weight)
    return Combination(
        names=tuple(uncertainties),
        transforms=tuple(feature.transform for feature in features),
        means=tuple(feature.mean for feature in features),
        stds=tuple(feature.std for feature in features),
        weights=tuple(weights),
        intercept=intercept,
    )


@dataclass(frozen=True)
class _Feature:
    """One uncertainty, transformed and standardised; values ``(M,)`` are all 0 when it does not vary."""

    transform: str
    mean: float
    std: float
    values: NDArray[np.float64]

    @classmethod
    def of(cls, values: Tensor, transform: str) -> _Feature:
        column = transformed(values, transform).numpy().ravel()
        mean, std = float(column.mean()), float(column.std())
        if std <= 1e-9 * (1 + abs(mean)):  # rounding alone
            return cls(transform, mean, 1.0, np.zeros_like(column))
        return cls(transform, mean, std, (column - mean) / std)


def _best_feature(values: Tensor, errors: NDArray[np.bool_]) -> _Feature:
    """As it is or by its logarithm, whichever alone explains the errors with the smaller log-loss."""
    plain = _Feature.of(values, "identity")
    if not plain.values.any() or not 0 < errors.sum() < len(errors) or bool((values < 0).any()):
        return plain
    return min(plain, _Feature.of(values, "log"), key=lambda feature: _log_loss(feature.values, errors))


def _worth_using(
    features: list[NDArray[np.float64]], errors: NDArray[np.bool_], clusters: NDArray[np.int64]
) -> Sequence[int]:
    """Which of the features to fit, by their place: all, or the one that alone predicts clusters left out better."""
    everything = range(len(features))
    names, inverse = np.unique(clusters, return_inverse=True)
    if len(features) == 1 or not FOLDS <= len(names) <= FEW:
        return everything
    fold = np.random.default_rng(0).permutation(len(names))[inverse.ravel()] % FOLDS
    columns = np.stack(features, 1)
    losses = {used: _left_out_loss(columns[:, list(used)], errors, fold) for used in [everything, *zip(everything)]}
    return min(losses, key=lambda used: losses[used])


def _left_out_loss(features: NDArray[np.float64], errors: NDArray[np.bool_], fold: NDArray[np.int64]) -> float:
    """Mean log-loss of answers that a regression on all other folds was not fitted to."""
    total = 0.0
    for number in range(FOLDS):
        there, left_out = fold != number, fold == number
        if errors[there].all() or not errors[there].any():
            logit = np.full(int(left_out.sum()), math.log((errors[there].sum() + 0.5) / ((~errors[there]).sum() + 0.5)))
        else:
            model = _regression(features[there], errors[there])
            logit = features[left_out] @ model.coef_[0] + model.intercept_[0]
        total += float(np.logaddexp(0, np.where(errors[left_out], -logit, logit)).sum())
    return total / len(errors)


def _log_loss(feature: NDArray[np.float64], errors: NDArray[np.bool_]) -> float:
    model = _regression(feature[:, None], errors)
    logit = feature * model.coef_[0, 0] + model.intercept_[0]
    return float(np.logaddexp(0, np.where(errors, -logit, logit)).mean())


def _regression(features: NDArray[np.float64], errors: NDArray[np.bool_]) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000).fit(features, errors)  # its slight penalty keeps separable data finite
