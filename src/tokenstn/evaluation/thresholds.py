"""Thresholds of the two flags for a target risk: found on the answers of one evaluation, judged on those of another.

One half of the images chooses what to look at: the combination of uncertainties, and the grid of thresholds to try. The
other half, one random pose of one image of each group, chooses the threshold, with the finite-sample bound of
``risk_control``. Each flag has a bound of its own, with its own confidence.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tokenstn.evaluation.answers import Answers
from tokenstn.evaluation.intervals import share_interval
from tokenstn.evaluation.method import Views
from tokenstn.evaluation.pose import pose_failed, scale_failed
from tokenstn.evaluation.results import Evaluation, FlagScore, FlagScores
from tokenstn.evaluation.risk_control import one_pose_per_image, risk_threshold, threshold_grid
from tokenstn.evaluation.scores import uncertainties
from tokenstn.evaluation.uncertainty import combine, halves
from tokenstn.geometry import Primitive
from tokenstn.models import TokenSTN
from tokenstn.models.thresholds import ClassThreshold, Guarantee, PoseThreshold, Thresholds

HAIR = 1e-6  # relative: grids stand above the values that they are made from, so that the rounding of another kernel
# does not raise a flag on an answer that is exactly as certain as one of those, such as all of them without errors
EPOCH_CHOSEN = {  # what a promise adds, by whether the images it is calibrated on have chosen the epoch
    None: " It holds if neither the model nor its classifier was trained on them, which is not known here.",
    False: " The model was not trained on them, nor have they decided which epoch of it was kept.",
    True: " The model was not trained on them, but their loss has decided which epoch of it was kept.",
}
LOST_TURN = "more than 30° from where the turning of the image puts them"
LOST_ZOOM = "more than a factor of 1.1 from where the scaling of the image puts them"


def fit_thresholds(
    answers: Answers,
    model: TokenSTN,
    *,
    target_risk: float = 0.05,
    pose_risk: float = 0.05,
    confidence: float = 0.95,
    views: Views = "auto",
    precision: str = "float32",
    seed: int = 0,
    chosen_by: Tensor | None = None,
    epoch_chosen: bool | None = None,
) -> Thresholds:
    """Thresholds for a model from its answers on images that it was not trained on; ``sentences`` says what they mean.

    Args:
        answers: of ``answer_orbit`` with that model and those views, on a group that moves the images.
        target_risk: the largest share of wrong classes among answers without ``class_uncertain``; for several labels
            an answer is wrong when any of them is.
        pose_risk: the largest share, among moved images without ``pose_ambiguous``, of rotations that did not follow
            the turn by more than 30°; of scales that did not follow by more than a factor of 1.1 where the model
            estimates no rotation.
        confidence: 1 − δ, of each of the two bounds.
        views, precision: how the answers were made; the flags will be given in such calls of such a model only.
        seed: of the halves and of the poses that are taken.
        chosen_by: rows ``(n,)`` in the table of images that something about the model was chosen by, as
            ``AutoViews.sure`` is: they and their groups are the first half, which does not calibrate. Drawn when None.
        epoch_chosen: whether the loss on these images has decided which epoch of the training was kept, which the
            promise says; None where it is not known either whether the model, or the classifier in it, was trained on
            them.

    Without labels there is no class part, without a moved rotation or scale no pose part. With too few images, or too
    many errors, no threshold meets the target and everything is flagged; without any error everything like the first
    half is accepted, if there are images enough to show the target.
    """
    for name, value in (("target_risk", target_risk), ("pose_risk", pose_risk), ("confidence", confidence)):
        if not 0 < value < 1:
            raise ValueError(f"{name}={value}: between 0 and 1, both excluded")
    return Thresholds(
        of_class=_class_part(answers, target_risk, confidence, seed, chosen_by, epoch_chosen),
        of_pose=_pose_part(answers, model.primitives, pose_risk, confidence, seed, chosen_by, epoch_chosen),
        settings=model.call_settings(views, precision=precision),
    )


def flag_scores(
    answers: Answers, thresholds: Thresholds, primitives: tuple[Primitive, ...], seed: int = 0
) -> FlagScores:
    """What given thresholds do on answers; meaningful for other images than those that they were found on.

    The class is judged over the labelled images of the orbit, the pose over the moved ones. What was promised is about
    a random image of a group where images belong together: the risk is then that of one of each.
    """
    of_class, of_pose = thresholds.of_class, thresholds.of_pose
    uncertain = thresholds.class_uncertain(uncertainties(answers))
    ambiguous = None if answers.poses is None else thresholds.pose_ambiguous(answers.poses.entropy)
    by_class, by_pose, why = None, None, thresholds.uncalibrated
    if of_class is not None and uncertain is not None:
        known = answers.labelled
        wrong = ~answers.best.all_right[:, known] if bool(known.any()) else None
        flags = uncertain if wrong is None else uncertain[:, known]
        clusters = answers.clusters if wrong is None else answers.clusters[known]
        promised, one = of_class.guarantee, _promised_about(answers, clusters, seed)
        by_class = _score("class_uncertain", flags, wrong, clusters, one, promised, seed, why.get("class_uncertain"))
    if of_pose is not None and ambiguous is not None:
        failed, _ = _pose_failures(answers, primitives)
        flags = ambiguous if failed is None else ambiguous[1:]
        clusters, promised = answers.clusters, of_pose.guarantee
        one = _promised_about(answers, clusters, seed)
        by_pose = _score("pose_ambiguous", flags, failed, clusters, one, promised, seed, why.get("pose_ambiguous"))
    only = None if uncertain is None or ambiguous is None else (ambiguous & ~uncertain).double().mean().item()
    return FlagScores(by_class, by_pose, only)


def with_flag_warnings(evaluation: Evaluation, thresholds: Thresholds | None) -> Evaluation:
    """An evaluation that also warns of each flag for which no threshold was found afterwards."""
    uncalibrated = {} if thresholds is None else thresholds.uncalibrated
    found = tuple(f"{flag} is {why}" for flag, why in uncalibrated.items())
    return replace(evaluation, warnings=(*evaluation.warnings, *found))


def _class_part(
    answers: Answers, target: float, confidence: float, seed: int, chosen_by: Tensor | None, epoch_chosen: bool | None
) -> ClassThreshold | None:
    known = answers.labelled
    if not bool(known.any()):
        return None
    clusters, wrong = answers.clusters[known], ~answers.best.all_right[:, known]
    doubts = {name: doubt[:, known] for name, doubt in uncertainties(answers).items()}
    first = _first_half(answers.rows[known], clusters, seed, chosen_by)
    combination = combine({name: doubt[:, first] for name, doubt in doubts.items()}, wrong[:, first], clusters[first])
    log_odds = combination.log_odds(doubts)
    grouped = answers.groups is not None
    found = _calibrated(log_odds, wrong, clusters, first, "wrong", target, confidence, grouped, epoch_chosen, seed + 1)
    return ClassThreshold(combination, *found)


def _pose_part(
    answers: Answers,
    primitives: tuple[Primitive, ...],
    target: float,
    confidence: float,
    seed: int,
    chosen_by: Tensor | None,
    epoch_chosen: bool | None,
) -> PoseThreshold | None:
    failed, failure = _pose_failures(answers, primitives)
    if failed is None or answers.poses is None:
        return None
    names = tuple(primitive.name for primitive in primitives)
    looked_at = ("rotation",) if "rotation" in names else names
    entropy = torch.stack([answers.poses.entropy[name] for name in looked_at]).amax(0)[1:]
    clusters = answers.clusters
    first = _first_half(answers.rows, clusters, seed, chosen_by)
    grouped = answers.groups is not None
    found = _calibrated(entropy, failed, clusters, first, failure, target, confidence, grouped, epoch_chosen, seed + 2)
    return PoseThreshold(looked_at, *found)


def _first_half(rows: Tensor, clusters: Tensor, seed: int, chosen_by: Tensor | None) -> Tensor:
    """Which images ``(N,)`` do not calibrate: a half of the clusters, or those that have chosen something before."""
    if chosen_by is None:
        return halves(len(clusters), seed, clusters)
    return torch.isin(clusters, clusters[torch.isin(rows, chosen_by)])


def _pose_failures(answers: Answers, primitives: tuple[Primitive, ...]) -> tuple[Tensor | None, str]:
    """Where the pose of a moved image is a failure, ``(E − 1, N)`` bool, and what that means; None if not known."""
    if len(answers.group) < 2:  # element 0 follows itself
        return None, ""
    failed = pose_failed(answers, primitives)
    if failed is not None:
        return failed[1:], LOST_TURN
    failed = scale_failed(answers, primitives)
    return (None, "") if failed is None else (failed[1:], LOST_ZOOM)


def _calibrated(
    uncertainty: Tensor,
    failed: Tensor,
    clusters: Tensor,
    first: Tensor,
    failure: str,
    target: float,
    confidence: float,
    grouped: bool,
    epoch_chosen: bool | None,
    seed: int,
) -> tuple[float | None, Guarantee]:
    """The threshold of uncertainties ``(E, N)``, with a grid from the first half ``(N,)`` and risks from the second."""
    chosen = _one_of_each(clusters, ~first, seed)
    if not len(chosen):
        words = "there was no second half of the images to calibrate on"
        return None, Guarantee(failure, target, confidence, 0, 0, 0, 1.0, words)
    grid = threshold_grid(uncertainty[:, first], len(chosen), target, confidence)
    grid = grid + HAIR * (1 + grid.abs())
    one = one_pose_per_image(len(uncertainty), len(chosen), seed), chosen
    found = risk_threshold(uncertainty[one], failed[one], target, grid, confidence, images=clusters[chosen])
    words = found.assumptions + EPOCH_CHOSEN[epoch_chosen]
    if grouped:
        words += " An image here is one random image of a group: the promise is for a random image of a new group."
    guarantee = Guarantee(
        failure, target, confidence, found.calibration_images, found.accepted, found.errors, found.bound, words
    )
    return found.threshold if found.found else None, guarantee


def _one_of_each(clusters: Tensor, allowed: Tensor, seed: int) -> Tensor:
    """A random allowed image of each cluster ``(N,)`` that has one: their places ``(n,)``, in order."""
    shuffled = np.random.default_rng((seed, 1)).permutation(np.flatnonzero(allowed.numpy()))
    _, places = np.unique(clusters.numpy()[shuffled], return_index=True)
    return torch.from_numpy(np.sort(shuffled[places]))


def _promised_about(answers: Answers, clusters: Tensor, seed: int) -> Tensor:
    """The places of the images that a promise is about: all, or where images belong together a random one of each."""
    everything = torch.ones(len(clusters), dtype=torch.bool)
    return everything.nonzero().squeeze(1) if answers.groups is None else _one_of_each(clusters, everything, seed)


def _score(
    name: str,
    raised: Tensor,
    failed: Tensor | None,
    clusters: Tensor,
    judged: Tensor,
    promised: Guarantee,
    seed: int,
    why_every_image: str | None,
) -> FlagScore:
    """One flag ``(E, N)`` against its failures ``(E, N)``, if these are known; ``judged``: the places of the images
    whose risk is looked at.
    """
    share, target = raised.double().mean().item(), promised.target_risk
    said = f"{name} is raised on {100 * share:.3g} % of the answers"
    if why_every_image is not None:
        said = f"{name} is {why_every_image}"
    if failed is None or not failed.numel():
        return FlagScore(share, None, None, target, None, said)
    among_raised = failed[raised].double().mean().item() if bool(raised.any()) else None
    accepted = ~raised[:, judged]
    if not bool(accepted.any()):
        return FlagScore(share, None, among_raised, target, None, said)
    of = clusters[judged].expand(accepted.shape)[accepted]
    risk = share_interval(failed[:, judged][accepted], of, seed=seed)
    kept = risk.low <= target
    sentence = (
        f"{said}; of the others {100 * risk.value:.3g} % ({100 * risk.low:.3g}–{100 * risk.high:.3g}) are "
        f"{promised.failure}, and at most {100 * target:.3g} % were promised"
    )
    if not kept:
        sentence += ": these images are not like those that the flag was calibrated on, so do not rely on it here"
    return FlagScore(share, risk, among_raised, target, kept, sentence)
