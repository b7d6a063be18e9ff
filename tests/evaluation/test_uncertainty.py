"""Scores of uncertainties, with intervals by image, and their combination."""

import json
from dataclasses import asdict

import pytest
import torch

from tests.evaluation.general_bootstrap import cluster_bootstrap
from tokenstn.evaluation.selective import Ranking, aurc, auroc, excess_aurc
from tokenstn.evaluation.uncertainty import Combination, combine, halves, uncertainty_scores


def orbit(elements: int = 8, images: int = 60, seed: int = 0) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Errors that come from two causes, an uncertainty for each, and one that knows nothing."""
    generator = torch.Generator().manual_seed(seed)
    doubt, entropy, noise, luck = torch.rand(4, elements, images, generator=generator)
    return {"doubt": doubt, "entropy": entropy, "noise": noise}, luck < 0.4 * doubt**2 + 0.4 * entropy**2


def test_scores_are_those_of_the_plain_functions():
    uncertainties, wrong = orbit()
    failed = uncertainties["entropy"] > 0.7
    scores = uncertainty_scores(uncertainties, wrong, failed, draws=30)
    for name, values in uncertainties.items():
        score = scores[name]
        assert score.class_auroc is not None and score.pose_auroc is not None
        assert score.class_auroc.value == pytest.approx(auroc(values, wrong))
        assert score.pose_auroc.value == pytest.approx(auroc(values[1:], failed[1:]))  # without element 0
        assert score.aurc.value == pytest.approx(aurc(values, wrong))
        assert score.excess_aurc == pytest.approx(excess_aurc(values, wrong))
        assert len(score.curve) == 101 and score.curve[-1] == (1.0, pytest.approx(wrong.double().mean().item()))
        general = cluster_bootstrap(Ranking.of(values, wrong).auroc, torch.arange(60).repeat(8), draws=30)
        assert score.class_auroc == general
    assert scores["entropy"].pose_auroc is not None and scores["entropy"].pose_auroc.low == 1.0


def test_a_mask_says_where_the_pose_is_known():
    uncertainties, wrong = orbit()
    failed, known = uncertainties["doubt"] > 0.5, torch.arange(8)[:, None].expand(8, 60) % 2 == 1
    score = uncertainty_scores(uncertainties, wrong, failed, known, draws=5)["noise"].pose_auroc
    assert score is not None and score.value == pytest.approx(auroc(uncertainties["noise"][known], failed[known]))
    nowhere = uncertainty_scores(uncertainties, wrong, failed, known & False, draws=5)
    assert nowhere["noise"].pose_auroc is None


def test_images_of_a_group_are_drawn_together():
    doubt, wrong = torch.rand(1, 100, generator=torch.Generator().manual_seed(0)), torch.arange(100)[None] % 20 < 5
    by_image = uncertainty_scores({"doubt": doubt}, wrong)["doubt"].aurc
    by_group = uncertainty_scores({"doubt": doubt}, wrong, groups=torch.arange(100) % 20)["doubt"].aurc
    assert by_group.value == by_image.value and by_group.high - by_group.low > 1.3 * (by_image.high - by_image.low)


def test_without_errors_and_in_a_group_of_one_element_scores_are_defined():
    uncertainties, wrong = orbit(elements=1)
    score = uncertainty_scores(uncertainties, wrong & False, wrong, draws=5)["doubt"]
    assert score.class_auroc is None and score.pose_auroc is None
    assert score.aurc.value == 0 and score.excess_aurc == 0
    assert uncertainty_scores(uncertainties, wrong | True, draws=5)["doubt"].aurc.value == pytest.approx(1)


def test_shapes_that_do_not_match_are_refused_with_a_sentence():
    uncertainties, wrong = orbit()
    with pytest.raises(ValueError, match=r"doubt has shape \(8, 60\), wrong has \(7, 60\)"):
        uncertainty_scores(uncertainties, wrong[1:])
    with pytest.raises(ValueError, match="60 images need as many groups"):
        uncertainty_scores(uncertainties, wrong, groups=torch.arange(5))


def test_a_combination_beats_each_of_its_parts_on_other_images():
    uncertainties, wrong = orbit(images=1000)
    fit = halves(1000)
    combination = combine({name: values[:, fit] for name, values in uncertainties.items()}, wrong[:, fit])
    others = {name: values[:, ~fit] for name, values in uncertainties.items()}
    others["combined"] = combination(others)
    scores = uncertainty_scores(others, wrong[:, ~fit], draws=50)
    best = max(scores[name].class_auroc.value for name in uncertainties)  # pyright: ignore[reportOptionalMemberAccess]
    assert scores["combined"].class_auroc is not None and scores["combined"].class_auroc.low > best
    weight = dict(zip(combination.names, combination.weights, strict=True))
    assert weight["doubt"] > 0.5 and weight["entropy"] > 0.5 and abs(weight["noise"]) < 0.1


def answers_of_few_images(images: int, generator: torch.Generator, poses: int = 16):
    """One uncertainty that tells hard images, five that tell nothing, and answers that fail together for an image."""
    hard = torch.randn(images, generator=generator)
    wrong = hard + 0.5 * torch.randn(poses, images, generator=generator) > 1.2
    says = {"doubt": hard + torch.randn(images, generator=generator)}
    says |= {f"nothing {number}": torch.randn(images, generator=generator) for number in range(5)}
    return {
        name: (value + 0.3 * torch.randn(poses, images, generator=generator)) for name, value in says.items()
    }, wrong


def test_a_few_images_are_not_explained_by_what_says_nothing():
    found, alone = [], []
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        combination = combine(*answers_of_few_images(40, generator))
        doubts, wrong = answers_of_few_images(1000, generator)
        found.append(Ranking.of(combination.log_odds(doubts), wrong).auroc())
        alone.append(Ranking.of(doubts["doubt"], wrong).auroc())
    assert sum(found) / 12 > sum(alone) / 12 - 0.03, "fitted to all six it is 0.05 lower"


def test_images_that_belong_together_are_left_out_together():
    generator = torch.Generator().manual_seed(0)
    doubts, wrong = answers_of_few_images(20, generator)
    thrice = {name: values.repeat(1, 3) for name, values in doubts.items()}
    combination = combine(thrice, wrong.repeat(1, 3), torch.arange(20).repeat(3))
    assert sum(weight != 0 for weight in combination.weights) == 1
    assert sum(weight != 0 for weight in combine(thrice, wrong.repeat(1, 3)).weights) == 6, "copies seem to confirm it"


def test_its_probabilities_are_calibrated_and_a_logarithm_is_taken_where_it_helps():
    generator = torch.Generator().manual_seed(0)
    doubt = 10 ** (-4 * torch.rand(20000, generator=generator))
    wrong = torch.rand(20000, generator=generator) < doubt / (1 + doubt)  # log odds = log doubt
    combination = combine({"doubt": doubt}, wrong)
    assert combination.transforms == ("log",)
    given = torch.tensor([0.001, 0.01, 0.1, 1.0])
    torch.testing.assert_close(combination({"doubt": given}), (given / (1 + given)).double(), rtol=0.15, atol=0.02)


def test_json_brings_it_back():
    uncertainties, wrong = orbit()
    combination = combine(uncertainties, wrong)
    again = Combination(**json.loads(json.dumps(asdict(combination))))
    assert again == combination
    assert torch.equal(again(uncertainties), combination(uncertainties))
    assert combination(uncertainties).shape == (8, 60)


@pytest.mark.parametrize("errors", [False, True])
def test_without_errors_or_with_none_but_errors_it_is_constant(errors):
    uncertainties, wrong = orbit()
    p = combine(uncertainties, torch.full_like(wrong, errors))(uncertainties)
    assert p.unique().tolist() == [pytest.approx((480.5 if errors else 0.5) / 481)]


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8, -3.0])
def test_an_uncertainty_that_does_not_vary_gets_no_weight(value):
    uncertainties, wrong = orbit()
    flat = {**uncertainties, "flat": torch.full_like(wrong, value, dtype=torch.float32)}
    combination = combine(flat, wrong)
    assert combination.weights[-1] == 0
    torch.testing.assert_close(combination(flat), combine(uncertainties, wrong)(uncertainties))
    assert combination({**flat, "flat": torch.rand(8, 60)}).isfinite().all()
    alone = combine({"flat": flat["flat"]}, wrong)({"flat": flat["flat"]})
    assert alone.unique().tolist() == [pytest.approx((wrong.sum().item() + 0.5) / 481)]


def test_one_that_separates_perfectly_stays_finite():
    _, wrong = orbit()
    p = combine({"oracle": wrong.double()}, wrong)({"oracle": wrong.double()})
    assert p[wrong].min() > 0.9 and p[~wrong].max() < 0.1 and p.isfinite().all()


def test_what_cannot_be_combined_is_refused_with_a_sentence():
    uncertainties, wrong = orbit()
    with pytest.raises(ValueError, match="missing: entropy, noise; given: doubt"):
        combine(uncertainties, wrong)({"doubt": uncertainties["doubt"]})
    with pytest.raises(ValueError, match="480 values of doubt are not finite"):
        combine({"doubt": uncertainties["doubt"] * torch.inf}, wrong)
    with pytest.raises(ValueError, match="nothing to combine"):
        combine({}, wrong)
    with pytest.raises(ValueError, match=r"doubt has shape \(8, 60\)"):
        combine(uncertainties, wrong[:2])


def test_halves_are_halves_and_keep_groups_whole():
    assert halves(101).sum() == 51 and not torch.equal(halves(100, seed=0), halves(100, seed=1))
    groups = torch.arange(60) % 10
    half = halves(60, groups=groups)
    assert half.sum() == 30 and all(len(half[groups == g].unique()) == 1 for g in range(10))
    with pytest.raises(ValueError, match="60 images need as many groups, got 5"):
        halves(60, groups=torch.arange(5))
