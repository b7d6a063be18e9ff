"""What of an evaluation goes into the results of a benchmark, and how its files are called."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tokenstn.evaluation.bench_results import DoubtScores, OrbitScores
from tokenstn.evaluation.evaluate import Examination
from tokenstn.evaluation.results import ClassEntropy, UncertaintyScore
from tokenstn.system.files import write_text


def orbit_scores(examined: Examination) -> OrbitScores:
    """The scores of the answers that a person gets; flips against the vanilla classifier are counted later."""
    evaluation, poses = examined.evaluation, examined.answers.poses
    given = evaluation.bare if evaluation.rectified is None else evaluation.rectified
    upright, orbit = given.discrimination_upright, given.discrimination_orbit
    return OrbitScores(
        images=evaluation.images,
        upright=given.upright,
        mean=given.mean,
        worst=given.worst,
        consistency=given.consistency,
        auc_upright=None if upright is None else upright.auc,
        auc=None if orbit is None else orbit.auc,
        by_element=given.by_element,
        by_class=given.by_class,
        ece=None if given.calibration is None else given.calibration.ece,
        views=None if poses is None else poses.views.double().mean().item(),
        flips=None,
        entropy={name: tuple(map(_mean_entropy, classes)) for name, classes in evaluation.entropy.items()},
        uncertainty={name: _doubt(score) for name, score in evaluation.uncertainty.items()},
        pose=evaluation.pose,
        controls=evaluation.controls,
    )


def file_name(name: str) -> str:
    """The name of an orbit as a folder.

    >>> file_name("rotation, disc")
    'rotation-disc'
    """
    return re.sub(r"[^\w.]+", "-", name).strip("-.") or "orbit"


def write_json(path: Path, document: Any) -> None:
    """JSON without NaN, the whole file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")


def _mean_entropy(found: ClassEntropy) -> float | None:
    """Over all answers of a class, whatever became of them."""
    groups = [group for group in (found.fixed, found.broken, found.unchanged) if group.mean is not None]
    count = sum(group.count for group in groups)
    return sum((group.mean or 0.0) * group.count for group in groups) / count if count else None


def _doubt(score: UncertaintyScore) -> DoubtScores:
    return DoubtScores(
        class_auroc=None if score.class_auroc is None else score.class_auroc.value,
        pose_auroc=None if score.pose_auroc is None else score.pose_auroc.value,
        aurc=score.aurc.value,
        accuracy_at_80=_accuracy_at(score, 0.8),
        accuracy_at_90=_accuracy_at(score, 0.9),
    )


def _accuracy_at(score: UncertaintyScore, coverage: float) -> float | None:
    """Among the surest answers, as many as the coverage says; the curve has a point for about every percent."""
    points = [risk for covered, risk in score.curve if covered >= coverage - 1e-9]
    return 1 - points[0] if points else None
