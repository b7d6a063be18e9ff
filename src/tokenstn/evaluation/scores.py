"""From answers to scores: what the bare and the rectified classifier do over the orbit, and which doubt to trust."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tokenstn.evaluation.answers import Answers, Responses
from tokenstn.evaluation.calibration import calibration
from tokenstn.evaluation.classification import discrimination
from tokenstn.evaluation.consistency import consistency
from tokenstn.evaluation.entropy import entropy_by_class
from tokenstn.evaluation.flips import flips
from tokenstn.evaluation.intervals import share_interval
from tokenstn.evaluation.results import ClassEntropy, Flips, Scores, UncertaintyScore
from tokenstn.evaluation.uncertainty import DRAWS, combine, halves, uncertainty_scores
from tokenstn.models.combination import named_uncertainties


def scores_of(answers: Answers, responses: Responses, classes: int, seed: int = 0) -> Scores:
    """How one answerer does; what needs labels is measured on the labelled images, and None without any.

    A class of which there is no image has NaN in ``by_class``.
    """
    agreement = consistency(responses.predicted)
    known, labels = answers.labelled, answers.labels[answers.labelled]
    shared = {
        "confidence_by_element": tuple(responses.confidence.double().mean(1).tolist()),
        "consistency": agreement.overall,
        "consistency_by_element": agreement.by_element,
        "consistency_by_image": agreement.by_image,
    }
    if responses.discrimination is None:
        return Scores(
            upright=None, mean=None, mean_ci=None, worst=None, best=None, by_element=None, by_class=None,
            discrimination_upright=None, discrimination_orbit=None, calibration=None, **shared,
        )  # fmt: skip
    right = responses.right[:, known].double()
    by_element = right.mean(1).tolist()
    return Scores(
        upright=by_element[0],
        mean=right.mean().item(),
        mean_ci=share_interval(right, answers.clusters[known], seed=seed),
        worst=min(by_element),
        best=max(by_element),
        by_element=tuple(by_element),
        by_class=_by_class(responses.correct[:, known], labels, classes),
        discrimination_upright=discrimination(responses.upright[known], labels, answers.multi_label),
        discrimination_orbit=responses.discrimination.compute(),
        calibration=calibration(
            responses.confidence[:, known].flatten(),
            right.flatten(),
            responses.nll[:, known].flatten(),
            responses.brier[:, known].flatten(),
        ),
        **shared,
    )


def flips_of(answers: Answers, classes: int) -> Flips | None:
    """What rectification changed, over the labelled images; None without labels or without a rectifier."""
    known = answers.labelled
    if answers.rectified is None or not bool(known.any()):
        return None
    before, after = answers.bare.correct[:, known], answers.rectified.correct[:, known]
    return flips(before, after, _single(answers), classes)


def entropies_of(answers: Answers, classes: int, seed: int = 0) -> dict[str, tuple[ClassEntropy, ...]]:
    """``{primitive: a ClassEntropy for each class}``; empty without labels or without a rectifier."""
    known = answers.labelled
    if answers.rectified is None or answers.poses is None or not bool(known.any()):
        return {}
    before, after = answers.bare.correct[:, known], answers.rectified.correct[:, known]
    return {
        name: entropy_by_class(entropy[:, known], before, after, _single(answers), classes, seed=seed)
        for name, entropy in answers.poses.entropy.items()
    }


def uncertainties(answers: Answers) -> dict[str, Tensor]:
    """Every kind of doubt about the answers that a person gets, ``{name: (E, N)}`` (:func:`named_uncertainties`)."""
    given, poses = answers.best, answers.poses
    if poses is None:
        return named_uncertainties(given.confidence, given.entropy, None, {})
    return named_uncertainties(given.confidence, given.entropy, poses.disagreement, poses.entropy)


def uncertainty_scores_of(
    answers: Answers, pose_failed: Tensor | None, seed: int = 0, draws: int = DRAWS
) -> dict[str, UncertaintyScore]:
    """How well each doubt tells wrong answers from right ones; a multi-label answer is right when all labels are.

    "combined" joins them all; each half of the images is judged by the combination that was fitted on the other half.
    Two rows are about the bare classifier's confidence, 1 − it: "bare_confidence" for the bare classifier's own errors,
    which is what there was before, and "bare_confidence_for_rectified" for the errors of the rectified one.
    """
    known = answers.labelled
    if not bool(known.any()):
        return {}
    groups = answers.clusters[known]
    wrong = ~answers.best.all_right[:, known]
    failed = None if pose_failed is None else pose_failed[:, known]
    doubts = {name: doubt[:, known] for name, doubt in uncertainties(answers).items()}
    if len(groups.unique()) > 1 and len(doubts) > 1:
        doubts["combined"] = _cross_fitted(doubts, wrong, groups, seed)
    bare = 1 - answers.bare.confidence[:, known]
    if answers.rectified is not None:
        doubts["bare_confidence_for_rectified"] = bare
    bare_wrong = ~answers.bare.all_right[:, known]
    return uncertainty_scores(doubts, wrong, failed, groups=groups, draws=draws, seed=seed) | uncertainty_scores(
        {"bare_confidence": bare}, bare_wrong, failed, groups=groups, draws=draws, seed=seed
    )


def _cross_fitted(doubts: dict[str, Tensor], wrong: Tensor, groups: Tensor, seed: int) -> Tensor:
    first = halves(wrong.shape[1], seed, groups)
    combined = torch.empty(wrong.shape, dtype=torch.float64)
    for fitted, judged in ((first, ~first), (~first, first)):
        combination = combine(
            {name: doubt[:, fitted] for name, doubt in doubts.items()}, wrong[:, fitted], groups[fitted]
        )
        combined[:, judged] = combination({name: doubt[:, judged] for name, doubt in doubts.items()}).cpu()
    return combined


def _single(answers: Answers) -> Tensor | None:
    return None if answers.multi_label else answers.labels[answers.labelled]


def _by_class(correct: Tensor, labels: Tensor, classes: int) -> tuple[float, ...]:
    if correct.ndim == 3:
        return tuple(correct.double().mean((0, 1)).tolist())
    share = correct.double().mean(0)
    return tuple(share[labels == k].mean().item() if bool((labels == k).any()) else math.nan for k in range(classes))
