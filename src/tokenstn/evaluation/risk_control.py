"""Thresholds for a target risk, with a bound that holds for a finite number of calibration images.

An answer is accepted when its uncertainty is at most the threshold. Which threshold keeps the share of errors among the
accepted answers below a target is read off calibration images, and trying many thresholds on the same images makes one
of them look good by luck; the fallback procedure (Wiens) pays for that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

GRID = 20  # thresholds
FIRST = 1.5  # times the fewest images that could show the target risk: what the first threshold accepts
STARTS = (0, 2, 6)  # places of the grid that share δ: in simulations more is accepted than if all 20 had a share


@dataclass(frozen=True)
class RiskThreshold:
    """Accept an answer when its uncertainty is at most ``threshold``, −inf to accept none.

    bound: upper confidence bound of the risk among accepted answers, at most ``target_risk`` (1 when none is accepted).
    accepted, errors: of the calibration images. assumptions: under which it holds.
    """

    threshold: float
    target_risk: float
    confidence: float
    calibration_images: int
    accepted: int
    errors: int
    bound: float
    assumptions: str

    @property
    def found(self) -> bool:
        """Whether any answer may be accepted."""
        return self.threshold > -math.inf

    @property
    def sentence(self) -> str:
        """What it means, in plain words."""
        if not self.found:
            fewest = images_needed(self.target_risk, self.confidence)
            return (
                f"no threshold keeps errors among accepted answers below {self.target_risk:.3g} with "
                f"{self.confidence:.0%} confidence on {self.calibration_images} calibration images, so no answer is "
                f"accepted: allow a larger risk, or calibrate with more images (at least {fewest} without an error)"
            )
        return (
            f"of the answers with an uncertainty of at most {self.threshold:.4g}, at most {self.target_risk:.3g} are "
            f"wrong, with {self.confidence:.0%} confidence: {self.accepted} of {self.calibration_images} calibration "
            f"images were accepted and {self.errors} of those were wrong"
        )


def risk_threshold(
    uncertainty: Tensor,
    wrong: Tensor,
    target_risk: float,
    grid: Tensor,
    confidence: float = 0.95,
    images: Tensor | None = None,
) -> RiskThreshold:
    """The largest threshold of a grid for which the risk among accepted answers is shown to be at most a target.

    Args:
        uncertainty: ``(n,)`` of n independent calibration images, each in one pose (:func:`one_pose_per_image`).
        wrong: ``(n,)`` bool.
        target_risk: α, the largest share of wrong answers among the accepted ones.
        grid: ``(m,)`` thresholds, declared without these images: :func:`threshold_grid` of others.
        confidence: 1 − δ.
        images: ``(n,)`` integers, which image (or patient, where images of a patient are alike) each answer is of; the
            same one twice is refused. Without it the independence is taken on trust.

    Why it holds: for a threshold fixed beforehand, the errors among however many answers are accepted are independent
    Bernoulli draws with exactly the risk in question, so "the Clopper–Pearson bound at level λ is at most α" happens
    with probability at most λ where the risk is above α. Thresholds are tested from the most to the least certain, each
    at the level that it brings (δ/3 for the starts, 0 for the others) plus what the one before hands on, all of its
    level if it passed and nothing if not; so before a threshold with a risk above α has passed, the next such one is
    tested at no more than what was brought since the last such one, and these sums add up to at most δ.

    >>> uncertainty = torch.linspace(0, 1, 1000)
    >>> found = risk_threshold(uncertainty, uncertainty > 0.6, 0.05, grid=torch.linspace(0.05, 1, 20))
    >>> round(found.threshold, 2), found.accepted, found.errors, found.bound < 0.05
    (0.6, 600, 0, True)
    """
    _check(uncertainty, wrong, target_risk, grid, confidence, images)
    values, errors = uncertainty.detach().cpu().double().numpy(), wrong.detach().cpu().bool().numpy()
    thresholds = np.unique(grid.detach().cpu().double().numpy())
    starts = [place for place in STARTS if place < len(thresholds)]
    best, level = (-math.inf, 0, 0, 1.0), 0.0
    for place, threshold in enumerate(thresholds):
        accept = values <= threshold
        level += (1 - confidence) / len(starts) if place in starts else 0.0
        accepted, wrongly = int(accept.sum()), int(errors[accept].sum())
        bound = clopper_pearson_upper(wrongly, accepted, level) if level else 1.0
        if bound <= target_risk:
            best = (float(threshold), accepted, wrongly, bound)
        else:
            level = 0.0
    threshold, accepted, wrongly, bound = best
    checked = "copies under other names are not looked for" if images is not None else "not checked"
    return RiskThreshold(
        threshold=threshold,
        target_risk=target_risk,
        confidence=confidence,
        calibration_images=len(values),
        accepted=accepted,
        errors=wrongly,
        bound=bound,
        assumptions=(
            f"the {len(values)} calibration images are independent, one pose of each ({checked}); images to come are "
            "drawn like them, also in their poses; the combination and the grid of thresholds were made from other "
            "images; the same model with the same views, precision and export. Under a shift of the data nothing is "
            "promised."
        ),
    )


def threshold_grid(
    uncertainty: Tensor, images: int, target_risk: float, confidence: float = 0.95, points: int = GRID
) -> Tensor:
    """Thresholds to declare for so many calibration images, ``(≤ points,)``, in even steps of coverage on other images.

    Args:
        uncertainty: any shape, of other images, such as the half that the combination was fitted on.
        images: n, how many calibration images there will be. The first threshold accepts about 1½ times as many of
            them as could show the target risk without an error: fewer make a first step that is hard to take.

    >>> threshold_grid(torch.arange(1000), images=1000, target_risk=0.05, points=4).tolist()
    [87.0, 391.0, 695.0, 999.0]
    """
    if points < 1 or images < 1 or not uncertainty.numel():
        raise ValueError(
            f"a grid of {points} thresholds for {images} images from {uncertainty.numel()} uncertainties: at least one "
            "of each"
        )
    ordered = np.sort(uncertainty.detach().cpu().double().numpy().ravel())
    first = min(1.0, FIRST * images_needed(target_risk, confidence) / images)
    accepted = np.maximum(np.rint(np.linspace(first, 1, points) * len(ordered)).astype(int), 1)
    return torch.from_numpy(np.unique(ordered[accepted - 1]))


def one_pose_per_image(elements: int, images: int, seed: int = 0) -> Tensor:
    """Which element to take for each image, ``(N,)``; ``values[picked, torch.arange(N)]`` are then independent.

    >>> one_pose_per_image(16, 1000).unique().tolist() == list(range(16))
    True
    """
    if elements < 1:
        raise ValueError(f"a group of order {elements} has no pose to take: at least 1")
    return torch.from_numpy(np.random.default_rng(seed).integers(elements, size=images))


def clopper_pearson_upper(errors: int, trials: int, level: float) -> float:
    """Exact upper bound of a probability: above it, so few errors happen with probability ``level`` at most.

    >>> round(clopper_pearson_upper(0, 59, 0.05), 4)        # the rule of three
    0.0495
    """
    from scipy.special import betaincinv

    return 1.0 if errors >= trials else float(betaincinv(errors + 1, trials - errors, 1 - level))


def images_needed(target_risk: float, confidence: float = 0.95) -> int:
    """The fewest accepted answers, all right, that can show a target risk: below it there is no threshold.

    >>> images_needed(0.05)
    59
    """
    return math.ceil(math.log(1 - confidence) / math.log1p(-target_risk))


def _check(
    uncertainty: Tensor, wrong: Tensor, target_risk: float, grid: Tensor, confidence: float, images: Tensor | None
) -> None:
    if uncertainty.ndim != 1 or wrong.shape != uncertainty.shape or not len(uncertainty):
        raise ValueError(
            f"calibration needs one answer (n,) of each of at least one image, got uncertainties of shape "
            f"{tuple(uncertainty.shape)} and errors of shape {tuple(wrong.shape)}; of (E, N) answers take "
            "one_pose_per_image"
        )
    if uncertainty.isnan().any():
        raise ValueError(f"{int(uncertainty.isnan().sum())} uncertainties are NaN: no threshold can be set")
    for name, value in (("target_risk", target_risk), ("confidence", confidence)):
        if not 0 < value < 1:
            raise ValueError(f"{name}={value}: between 0 and 1, both excluded")
    if grid.ndim != 1 or not len(grid) or not grid.isfinite().all():
        raise ValueError(f"the grid is a row of finite thresholds, (m,), got {tuple(grid.shape)}; see threshold_grid")
    if images is None:
        return
    if images.shape != uncertainty.shape:
        raise ValueError(f"{len(uncertainty)} answers need as many image numbers, got shape {tuple(images.shape)}")
    numbers, counts = images.unique(return_counts=True)
    if int(counts.max()) > 1:
        first = int(counts.argmax())
        raise ValueError(
            f"image {int(numbers[first])} occurs {int(counts[first])} times: copies of an image fail together, and the "
            "bound would not hold; take one answer of each image, as one_pose_per_image picks them"
        )
