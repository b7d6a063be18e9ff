"""Thresholds to test with."""

import numpy as np

from tokenstn import Prediction
from tokenstn.models import AutoViews, Thresholds
from tokenstn.models.call_settings import CallSettings
from tokenstn.models.combination import Combination
from tokenstn.models.thresholds import ClassThreshold, Guarantee, PoseThreshold

PROMISE = Guarantee(
    "wrong", 0.05, 0.95, images=100, accepted=80, errors=0, bound=0.037, assumptions="images like these"
)
NAMES = ("disagreement", "confidence", "predictive_entropy", "entropy_rotation", "entropy_scale")


def some_thresholds(
    views: int | str | None = "auto",
    class_threshold: float | None = 1.2,
    pose_threshold: float | None = 0.97,
    names: tuple[str, ...] = ("confidence", "predictive_entropy"),
    **settings,
) -> Thresholds:
    """Log-odds of −0.3 + 0.9 (log 1e-6-floored first + 2)/0.5 + 0.8 (second − 0.1)/0.7 + …, and the rotation."""
    n = len(names) - 1
    combination = Combination(
        names, ("log", *["identity"] * n), (-2.0, *[0.1] * n), (0.5, *[0.7] * n), (0.9, *[0.8] * n), -0.3
    )
    auto = AutoViews() if views == "auto" else None
    return Thresholds(
        ClassThreshold(combination, class_threshold, PROMISE),
        PoseThreshold(("rotation",), pose_threshold, PROMISE),
        CallSettings(views, auto, **settings),
    )


def log_odds_by_hand(p: Prediction, multi_label: bool = False) -> np.ndarray:
    """What ``some_thresholds(names=NAMES)`` combines, from the prediction alone and in numpy."""
    probabilities = p.probabilities.double().numpy()
    if multi_label:
        doubt = np.minimum(probabilities, 1 - probabilities).mean(-1)
        entropy = -(probabilities * np.log(probabilities) + (1 - probabilities) * np.log(1 - probabilities)).sum(-1)
    else:
        doubt, entropy = 1 - probabilities.max(-1), -(probabilities * np.log(probabilities)).sum(-1)
    total = -0.3 + 0.9 * (np.log(p.disagreement.double().numpy() + 1e-6) + 2) / 0.5
    for part in (doubt, entropy, p.entropy["rotation"].double().numpy(), p.entropy["scale"].double().numpy()):
        total = total + 0.8 * (part - 0.1) / 0.7
    return total


def at_medians(p: Prediction, views: int | str, multi_label: bool = False, **settings) -> Thresholds:
    """Thresholds between the middle values, well away from rounding."""
    middle = np.median(log_odds_by_hand(p, multi_label))
    return some_thresholds(views, float(middle), p.entropy["rotation"].double().quantile(0.5).item(), NAMES, **settings)
