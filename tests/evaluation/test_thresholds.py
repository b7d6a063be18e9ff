"""Thresholds for a target risk: the whole way from answers to flags, and the risk that is kept in simulation."""

import dataclasses
import json
import math

import pytest
import torch
from torch import Tensor, nn

import tokenstn
from tokenstn.data import ImageTable
from tokenstn.evaluation.answers import Answers, FoundPoses, Responses
from tokenstn.evaluation.evaluate import evaluate
from tokenstn.evaluation.metrics_json import from_json, to_json
from tokenstn.evaluation.orbit import answer_orbit
from tokenstn.evaluation.photos import load_photos
from tokenstn.evaluation.scores import uncertainties
from tokenstn.evaluation.thresholds import fit_thresholds, flag_scores
from tokenstn.evaluation.uncertainty import combine
from tokenstn.geometry import Rotation, Scale, rotation_group, scale_group
from tokenstn.models import Thresholds
from tokenstn.models.thresholds import ClassThreshold, Guarantee, PoseThreshold
from tokenstn.posteriors import Circular, Posterior
from tokenstn.posteriors.circular import bin_angles

from .toys import PREPROCESSING, HonestSTN, bare_model, frame

# --- answers made of numbers


def synthetic(
    doubt: Tensor,
    wrong: Tensor,
    entropy: Tensor,
    lost: Tensor,
    labels: Tensor | None = None,
    groups: tuple[str, ...] | None = None,
) -> Answers:
    """Answers ``(E, N)`` to turned images: 1 − confidence, errors, entropy of the rotation, and where it is lost."""
    elements, images = doubt.shape
    group = rotation_group(elements)
    responses = Responses(
        predicted=torch.zeros(elements, images, dtype=torch.int32),
        confidence=1 - doubt,
        entropy=doubt * (2 - doubt),
        correct=~wrong,
        nll=doubt,
        brier=doubt,
        upright=torch.stack((1 - doubt[0], doubt[0]), 1),
        discrimination=None,
    )
    value = group.poses.rotation[:, None] + torch.where(lost, 2.0, 0.1)
    value[0] = 0.0
    poses = FoundPoses(
        value={"rotation": torch.remainder(value + math.pi, 2 * math.pi) - math.pi},
        entropy={"rotation": entropy},
        spread={"rotation": entropy},
        views=torch.ones(elements, images, dtype=torch.long),
        disagreement=torch.zeros(elements, images),
    )
    ones = torch.ones(images)
    return Answers(
        group=group,
        labels=torch.zeros(images, dtype=torch.long) if labels is None else labels,
        rows=torch.arange(images),
        groups=groups,
        multi_label=False,
        first_shear=0 * ones,
        zoom=ones,
        stretch=ones,
        bad=(),
        bare=responses,
        rectified=responses,
        poses=poses,
    )


def world(images: int, generator: torch.Generator, elements: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Doubt and entropy ``(E, N)``, alike in the copies of an image, and the chances of either error."""
    shared = torch.rand(2, 1, images, generator=generator)
    own = torch.rand(2, elements, images, generator=generator)
    doubt, entropy = (0.7 * shared + 0.3 * own).unbind(0)
    return doubt, entropy, 0.6 * doubt**4 + 0.1 * entropy**4, 0.6 * entropy**4


def draw(images: int, generator: torch.Generator, **settings) -> Answers:
    doubt, entropy, error, loss = world(images, generator)
    luck = torch.rand(2, *doubt.shape, generator=generator)
    return synthetic(doubt, luck[0] < error, entropy, luck[1] < loss, **settings)


def true_risks(thresholds: Thresholds, fresh: tuple[Tensor, ...]) -> tuple[float, ...]:
    """Of accepted answers, from their chances of an error; 0 where none is accepted."""
    doubt, entropy, error, loss = fresh
    seen = uncertainties(synthetic(doubt, doubt > 2, entropy, doubt > 2))
    uncertain, ambiguous = thresholds.class_uncertain(seen), thresholds.pose_ambiguous({"rotation": entropy})
    assert uncertain is not None and ambiguous is not None
    ambiguous, loss = ambiguous[1:], loss[1:]
    return tuple(
        chance[~flag].mean().item() if not flag.all() else 0.0
        for chance, flag in ((error, uncertain), (loss, ambiguous))
    )


def test_the_whole_way_keeps_both_target_risks_in_simulation():
    draws, delta, target = 200, 0.2, 0.08
    generator = torch.Generator().manual_seed(0)
    model, fresh = HonestSTN(), world(4000, torch.Generator().manual_seed(1))
    broken, found = torch.zeros(2), torch.zeros(2)
    for seed in range(draws):
        limits = fit_thresholds(
            draw(400, generator), model, target_risk=target, pose_risk=target, confidence=1 - delta, seed=seed
        )
        assert limits.of_class is not None and limits.of_pose is not None
        broken += torch.tensor([risk > target for risk in true_risks(limits, fresh)])
        found += torch.tensor([limits.of_class.threshold is not None, limits.of_pose.threshold is not None])
    slack = 3 * math.sqrt(delta * (1 - delta) / draws)
    assert (broken / draws <= delta + slack).all() and (found / draws > 0.7).all()


def test_the_same_seed_gives_the_same_thresholds():
    answers = draw(300, torch.Generator().manual_seed(0))
    first, again, other = (fit_thresholds(answers, HonestSTN(), target_risk=0.1, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_without_errors_everything_like_these_images_is_accepted():
    doubt, entropy, _, _ = world(200, torch.Generator().manual_seed(0))
    never = doubt > 2
    answers = synthetic(doubt, never, entropy, never)
    limits = fit_thresholds(answers, HonestSTN())
    assert limits.of_class is not None and limits.of_class.guarantee.accepted == 100
    uncertain = limits.class_uncertain(uncertainties(answers))
    assert uncertain is not None and not uncertain.any(), "the combination is constant: equal is not above"
    of_class, of_pose = limits.sentences
    assert of_class == (
        "class_uncertain: accepts 100 % of turned images; at most 5 % of the accepted answers are wrong, with 95 % "
        "confidence, for images like these 100"
    )
    assert "% of the accepted poses are more than 30° from where the turning of the image puts them" in of_pose


@pytest.mark.parametrize("images", [1, 2, 40])
def test_with_too_few_images_everything_is_flagged_and_a_sentence_says_why(images):
    doubt, entropy, _, _ = world(images, torch.Generator().manual_seed(0))
    answers = synthetic(doubt, doubt > 2, entropy, doubt > 2)
    limits = fit_thresholds(answers, HonestSTN())
    assert limits.of_class is not None and limits.of_class.threshold is None
    assert limits.of_pose is not None and limits.of_pose.threshold is None
    assert limits.of_class.guarantee.images == images // 2
    for sentence in limits.sentences:
        assert f"on {images // 2} calibration images" in sentence and "at least 118" in sentence
    scores = flag_scores(answers, limits, HonestSTN().primitives)
    assert scores.class_uncertain is not None and scores.class_uncertain.raised == 1
    assert scores.class_uncertain.risk is None and scores.pose_only == 0
    assert scores.class_uncertain.sentence.startswith("class_uncertain is not calibrated: every image is flagged")
    assert Thresholds.from_json(json.loads(json.dumps(limits.to_json(), allow_nan=False))) == limits


def test_images_of_a_group_stay_together_and_count_once():
    generator = torch.Generator().manual_seed(0)
    groups = tuple(f"patient {number % 30}" for number in range(300))
    limits = fit_thresholds(draw(300, generator, groups=groups), HonestSTN(), target_risk=0.3, pose_risk=0.3)
    for part in (limits.of_class, limits.of_pose):
        assert isinstance(part, ClassThreshold | PoseThreshold)
        assert part.guarantee.images == 15 and "one random image of a group" in part.guarantee.assumptions


def test_a_promise_about_groups_is_judged_by_groups():
    """One patient of a hundred has as many photos as all others, and all of them fail."""
    groups = tuple(f"patient {max(0, number - 98)}" for number in range(200))
    answers = draw(200, torch.Generator().manual_seed(0), groups=groups)
    right = torch.arange(200).expand(3, 200) >= 99
    answers = dataclasses.replace(answers, rectified=dataclasses.replace(answers.best, correct=right))
    guarantee = Guarantee("wrong", 0.05, 0.95, 100, 100, 1, 0.047, "as promised")
    nothing_flagged = ClassThreshold(combine(uncertainties(answers), ~right), 1e9, guarantee)
    limits = Thresholds(nothing_flagged, None, HonestSTN().call_settings())
    found = flag_scores(answers, limits, HonestSTN().primitives).class_uncertain
    assert found is not None and found.kept and found.risk is not None and found.risk.value == pytest.approx(1 / 102)


def test_images_that_have_chosen_something_do_not_calibrate():
    answers = draw(300, torch.Generator().manual_seed(0), labels=torch.where(torch.arange(300) % 5 > 0, 0, -1))
    answers = dataclasses.replace(answers, rows=7 * torch.arange(300))  # some of the table cannot be read
    chosen_by = 7 * torch.arange(0, 300, 3)
    limits = fit_thresholds(answers, HonestSTN(), target_risk=0.3, pose_risk=0.3, chosen_by=chosen_by)
    assert limits.of_class is not None and limits.of_pose is not None
    assert limits.of_pose.guarantee.images == 200 and limits.of_class.guarantee.images == 160


def test_nor_do_other_images_of_their_groups():
    groups = tuple(f"patient {number % 30}" for number in range(300))
    answers = draw(300, torch.Generator().manual_seed(0), groups=groups)
    first = torch.arange(300)[torch.arange(300) % 30 < 10]  # of ten patients; then one image of each of them
    for chosen_by in (first, first[:10]):
        limits = fit_thresholds(answers, HonestSTN(), target_risk=0.3, pose_risk=0.3, chosen_by=chosen_by)
        assert limits.of_pose is not None and limits.of_pose.guarantee.images == 20


def test_a_promise_says_where_these_images_have_chosen_the_epoch():
    answers = draw(300, torch.Generator().manual_seed(0))
    unknown = fit_thresholds(answers, HonestSTN(), target_risk=0.3, pose_risk=0.3)
    assert unknown.of_class is not None and "which is not known here" in unknown.of_class.guarantee.assumptions
    for chosen, said in ((False, "nor have they decided which epoch"), (True, "decided which epoch of it was kept")):
        found = fit_thresholds(answers, HonestSTN(), target_risk=0.3, pose_risk=0.3, epoch_chosen=chosen)
        for part in (found.of_class, found.of_pose):
            assert part is not None and said in part.guarantee.assumptions


def test_what_cannot_be_calibrated_is_left_out():
    generator = torch.Generator().manual_seed(0)
    unlabelled = fit_thresholds(draw(100, generator, labels=torch.full((100,), -1)), HonestSTN())
    assert unlabelled.of_class is None and unlabelled.of_pose is not None
    assert "no image with a label" in unlabelled.sentences[0]
    answers = draw(100, generator)
    assert answers.poses is not None
    still = dataclasses.replace(answers, group=rotation_group(1))
    assert fit_thresholds(still, HonestSTN()).of_pose is None
    bare = fit_thresholds(dataclasses.replace(answers, poses=None, rectified=None), bare_model())
    assert bare.of_pose is None and bare.settings.views is None and bare.of_class is not None
    assert bare.of_class.combination.names == ("confidence", "predictive_entropy")


def test_half_of_the_labels_are_enough_for_half_of_the_images():
    labels = torch.where(torch.arange(300) < 150, 0, -1)
    limits = fit_thresholds(draw(300, torch.Generator().manual_seed(0), labels=labels), HonestSTN())
    assert limits.of_class is not None and limits.of_class.guarantee.images == 75
    assert limits.of_pose is not None and limits.of_pose.guarantee.images == 150


def test_without_a_rotation_the_scale_is_judged_by_the_largest_entropy():
    doubt, entropy, _, _ = world(600, torch.Generator().manual_seed(0))
    answers, group = synthetic(doubt, doubt > 2, entropy, doubt > 2), scale_group(3)
    lost = entropy > 0.8
    value = group.poses.scale[:, None] * torch.where(lost, 1.3, 1.02)
    value[0] = 1.0
    poses = FoundPoses(
        {"scale": value, "shear": 0 * value}, {"scale": entropy, "shear": 0.5 * entropy}, {}, doubt, None
    )
    answers = dataclasses.replace(answers, group=group, poses=poses)
    model = HonestSTN(primitives=(Scale(0.5), "shear"))
    limits = fit_thresholds(answers, model, views=2)
    assert limits.of_pose is not None and limits.of_pose.primitives == ("scale", "shear")
    assert limits.of_pose.threshold == pytest.approx(0.8, abs=0.05)
    assert "factor of 1.1" in limits.sentences[1] and limits.settings.views == 2 and limits.settings.auto is None


@pytest.mark.parametrize("setting", [{"target_risk": 0}, {"pose_risk": 1.0}, {"confidence": 95}])
def test_a_risk_outside_its_range_is_refused(setting):
    with pytest.raises(ValueError, match=f"{next(iter(setting))}=.*between 0 and 1"):
        fit_thresholds(draw(10, torch.Generator()), HonestSTN(), **setting)


def test_given_thresholds_are_judged_by_counting():
    generator = torch.Generator().manual_seed(0)
    limits = fit_thresholds(draw(1000, generator), HonestSTN(), target_risk=0.1, pose_risk=0.1)
    answers = draw(500, generator)
    scores = flag_scores(answers, limits, (Rotation(),))
    seen = uncertainties(answers)
    uncertain, ambiguous = limits.class_uncertain(seen), seen["entropy_rotation"] > limits.of_pose.threshold
    wrong, lost = ~answers.best.correct, (answers.poses.value["rotation"] - answers.group.poses.rotation[:, None]).abs()
    lost = torch.remainder(lost + 0.5, 2 * math.pi) > 1
    by_class, by_pose = scores.class_uncertain, scores.pose_ambiguous
    assert by_class.raised == pytest.approx(uncertain.double().mean().item())
    assert by_class.risk.value == pytest.approx(wrong[~uncertain].double().mean().item())
    assert by_class.risk_raised == pytest.approx(wrong[uncertain].double().mean().item())
    assert by_class.risk.low < by_class.risk.value < by_class.risk.high < by_class.risk_raised
    assert by_pose.raised == pytest.approx(ambiguous[1:].double().mean().item())
    assert by_pose.risk.value == pytest.approx(lost[1:][~ambiguous[1:]].double().mean().item())
    assert scores.pose_only == pytest.approx((ambiguous & ~uncertain).double().mean().item())
    assert by_class.kept and by_pose.kept and "at most 10 % were promised" in by_class.sentence


def test_a_promise_that_is_not_kept_on_other_images_is_said():
    generator = torch.Generator().manual_seed(0)
    limits = fit_thresholds(draw(1000, generator), HonestSTN(), target_risk=0.1)
    answers = draw(500, generator)
    shifted = dataclasses.replace(answers.best, correct=torch.rand(3, 500, generator=generator) > 0.4)
    score = flag_scores(dataclasses.replace(answers, rectified=shifted), limits, (Rotation(),)).class_uncertain
    assert score is not None and score.kept is False and "do not rely on it" in score.sentence


# --- photos of arrows, discs and muddles


class Kinds(nn.Module):
    """Tells arrows (much blue above the ground) from discs (much red in the centre), however they lie."""

    def __init__(self) -> None:
        super().__init__()
        self.eyes = nn.Identity()
        x, y = frame()
        self.centre = nn.Parameter(torch.exp(-(x**2 + y**2) / 0.1))

    def forward(self, images: Tensor) -> Tensor:
        red, _, blue = (self.eyes(images) * 0.25 + 0.5).unbind(1)
        seen = torch.stack(((blue * self.centre).sum((1, 2)), (red * self.centre).sum((1, 2))), 1)
        return 20 * seen / self.centre.sum()


class SoberSTN(HonestSTN):
    """As sure of the angle as the green marker is bright; without one it knows nothing, and says so."""

    def __init__(self, **settings) -> None:
        super().__init__(classes=("arrow", "disc"), **settings)
        self.backbone.classifier = Kinds()
        self.eval()

    def localize(self, images: Tensor) -> dict[str, Posterior]:
        bright = (images[:, 1] * 0.25 + 0.5).amax((1, 2))
        sure = torch.where(bright > 0.3, self.sharpness, 0.02)
        ring = torch.cos(bin_angles().float() - self.angle(images)[:, None])
        return {"rotation": Circular(Rotation(), sure[:, None] * ring)}


def kinds_table(count: int, seed: int) -> tuple[ImageTable, Tensor]:
    """Arrows (kind 0), discs (1) and muddles of both (2) whose label is a coin's; three in ten are muddles."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.tensor([0, 1, 2, 1, 0, 2, 0, 1, 2, 0]).repeat(count // 10)
    x, y = frame()
    centre, marker = torch.exp(-(x**2 + y**2) / 0.1), torch.exp(-((x - 0.6) ** 2 + y**2) / 0.02)
    amount = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.5, 1.0, 0.5]])[kind]  # red, green, blue
    light = 0.8 + 0.2 * torch.rand(len(kind), 1, 1, 1, generator=generator)
    photos = light * amount[:, :, None, None] * torch.stack((centre, marker, centre))
    photos = photos + 0.06 * torch.rand(photos.shape, generator=generator)
    labels = torch.where(kind == 2, torch.randint(2, (len(kind),), generator=generator), kind)
    items = (photos.clamp(0, 1) * 255).round().to(torch.uint8)
    return ImageTable("kinds", items, labels, ("arrow", "disc"), splits={"val": torch.arange(len(kind))}), kind


FAST = {"cost": False, "controls": False, "draws": 10, "batch_size": 100, "examples": 0}


@pytest.fixture(scope="module")
def fitted():
    table, _ = kinds_table(800, seed=0)
    model = SoberSTN()
    examined = evaluate(model, table, "val", group=rotation_group(5), **FAST)
    assert examined.evaluation.flags is None and examined.evaluation.flips is not None
    model.thresholds = fit_thresholds(examined.answers, model)
    return model


@torch.no_grad()
def test_a_symmetric_object_has_an_ambiguous_pose_and_a_certain_class(fitted):
    table, kind = kinds_table(100, seed=1)
    answers = answer_orbit(fitted, load_photos(table, torch.arange(100), PREPROCESSING), rotation_group(5))
    photos = (table.items.float() / 255 - 0.5) / 0.25
    p = fitted(photos)
    assert p.pose_ambiguous.tolist() == (kind == 1).tolist()
    # the target risk leaves room for a few muddles, and the grid for a few clear ones
    assert p.class_uncertain[kind == 2].float().mean() > 0.8 and p.class_uncertain[kind != 2].float().mean() < 0.1
    assert (p.pose_ambiguous & ~p.class_uncertain)[kind == 1].float().mean() > 0.9
    scores = flag_scores(answers, fitted.thresholds, fitted.primitives)
    assert scores.pose_only > 0.27 and scores.pose_ambiguous.raised == pytest.approx(0.3)


@torch.no_grad()
def test_the_answers_of_an_evaluation_have_the_uncertainties_and_flags_of_the_call(fitted):
    table, _ = kinds_table(40, seed=2)
    answers = answer_orbit(fitted, load_photos(table, torch.arange(40), PREPROCESSING), rotation_group(1))
    p = fitted((table.items.float() / 255 - 0.5) / 0.25)
    seen = uncertainties(answers)
    torch.testing.assert_close(seen["confidence"][0], 1 - p.probabilities.amax(-1), atol=1e-6, rtol=0)
    torch.testing.assert_close(seen["disagreement"][0], p.disagreement, atol=1e-6, rtol=0)
    torch.testing.assert_close(seen["entropy_rotation"][0], p.entropy["rotation"], atol=1e-6, rtol=0)
    assert fitted.thresholds.class_uncertain(seen)[0].tolist() == p.class_uncertain.tolist()
    assert fitted.thresholds.pose_ambiguous(answers.poses.entropy)[0].tolist() == p.pose_ambiguous.tolist()


def test_an_evaluation_judges_the_flags_and_survives_json(fitted):
    table, _ = kinds_table(100, seed=3)
    evaluation = evaluate(fitted, table, "val", group=rotation_group(5), **FAST).evaluation
    assert evaluation.flags is not None and evaluation.flags.class_uncertain is not None
    assert evaluation.flags.class_uncertain.risk.value < 0.05 < 1 - evaluation.rectified.mean
    assert evaluation.flags.class_uncertain.kept and evaluation.flags.class_uncertain.risk_raised > 0.3
    assert evaluation.flags.pose_ambiguous.raised == pytest.approx(0.3)
    assert not any("flag" in warning for warning in evaluation.warnings)
    assert from_json(json.loads(json.dumps(to_json(evaluation), allow_nan=False))) == evaluation


def test_under_other_views_an_evaluation_has_no_flags_and_says_why(fitted):
    table, _ = kinds_table(20, seed=4)
    evaluation = evaluate(fitted, table, "val", group=rotation_group(3), views=2, **FAST).evaluation
    assert evaluation.flags is None and "views 2 (calibrated: auto)" in evaluation.warnings[-1]


@pytest.mark.filterwarnings("ignore:.*cannot be rebuilt")
@torch.no_grad()
def test_a_folder_keeps_what_was_fitted(fitted, tmp_path):
    fitted.save_pretrained(tmp_path)
    loaded = tokenstn.load(tmp_path, classifier=Kinds())
    assert loaded.thresholds == fitted.thresholds
    assert loaded.thresholds.sentences == fitted.thresholds.sentences
