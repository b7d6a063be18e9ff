"""The bound holds where its assumptions do, fails where they do not, and says so."""

import math

import pytest
import torch
from scipy import stats

from tokenstn.evaluation.risk_control import (
    clopper_pearson_upper,
    images_needed,
    one_pose_per_image,
    risk_threshold,
    threshold_grid,
)

TARGET, CONFIDENCE, DRAWS = 0.1, 0.9, 1000
DELTA = 1 - CONFIDENCE
SLACK = 3 * math.sqrt(DELTA * (1 - DELTA) / DRAWS)  # of a share of 1,000 draws
GRID = torch.linspace(0.05, 1, 20)


def error_rate(uncertainty: torch.Tensor) -> torch.Tensor:
    """Barely right at first, so that a grid point is at the edge of the target, and then ever worse."""
    return 0.08 + 0.3 * (uncertainty - 0.35).clamp_min(0)


def true_risk(threshold: float) -> float:
    """Among answers accepted at a threshold, uncertainty being uniform; 0 when none is accepted."""
    return 0.08 + 0.15 * max(threshold - 0.35, 0) ** 2 / threshold if threshold > 0 else 0.0


def calibration_images(n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    uncertainty, luck = torch.rand(2, n, generator=generator)
    return uncertainty, luck < error_rate(uncertainty)


def violations(images: int, copies: int = 1, worse: float = 1.0, draws: int = DRAWS) -> tuple[float, float]:
    """Share of calibrations whose threshold has a risk above the target, and share that found a threshold."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(draws):
        uncertainty, wrong = calibration_images(images, generator)
        found.append(
            risk_threshold(uncertainty.repeat(copies), wrong.repeat(copies), TARGET, GRID, CONFIDENCE).threshold
        )
    return sum(worse * true_risk(t) > TARGET for t in found) / draws, sum(t > 0 for t in found) / draws


def test_the_risk_is_above_the_target_in_at_most_delta_of_1000_draws():
    for images in (300, 3000):
        share, _ = violations(images)
        assert share <= DELTA + SLACK


def test_the_whole_way_keeps_it_grid_from_other_images_and_one_pose_of_each():
    generator, broken = torch.Generator().manual_seed(0), 0
    for draw in range(DRAWS):
        uncertainty, wrong = (values.reshape(4, 3000) for values in calibration_images(12000, generator))
        grid = threshold_grid(uncertainty[:, :1500], images=1500, target_risk=TARGET, confidence=CONFIDENCE)
        one = one_pose_per_image(4, 1500, seed=draw), torch.arange(1500, 3000)
        found = risk_threshold(uncertainty[one], wrong[one], TARGET, grid, CONFIDENCE, images=one[1])
        broken += true_risk(found.threshold) > TARGET
    assert broken / DRAWS <= DELTA + SLACK


def test_the_bound_is_nearly_exact_for_one_threshold_at_the_edge():
    generator = torch.Generator().manual_seed(0)
    grid, n = torch.tensor([1.0]), 2000
    passed = sum(
        risk_threshold(torch.rand(n), torch.rand(n, generator=generator) < TARGET, TARGET, grid, CONFIDENCE).found
        for _ in range(DRAWS)
    )
    assert passed / DRAWS == pytest.approx(DELTA, abs=SLACK)


def test_the_bound_is_not_an_empty_one():
    share, found = violations(3000, draws=300)
    assert found > 0.5 and share > 0


def test_copies_counted_as_independent_images_break_it():
    share, _ = violations(images=100, copies=16)
    assert share > DELTA + SLACK


def test_data_that_have_shifted_break_it():
    share, _ = violations(images=3000, worse=1.3)
    assert share > DELTA + SLACK


def test_a_risk_that_falls_again_is_controlled_too():
    """The most certain answers are bad, then better: nothing is assumed about the shape of the risk."""
    generator = torch.Generator().manual_seed(1)
    grid, rates = torch.tensor([0.2, 0.4, 0.6, 0.8, 1.0]), torch.tensor([0.15, 0.06, 0.11, 0.05, 0.25])
    risks = rates.cumsum(0) / torch.arange(1, 6)  # 0.150 0.105 0.107 0.093 0.124
    high = {t for t, risk in zip(grid.double().tolist(), risks.tolist(), strict=True) if risk > TARGET}
    broken = 0
    for _ in range(DRAWS):
        uncertainty, luck = torch.rand(2, 2000, generator=generator)
        wrong = luck < rates[(uncertainty * 5).long().clamp(max=4)]
        broken += risk_threshold(uncertainty, wrong, TARGET, grid, CONFIDENCE).threshold in high
    assert len(high) == 4 and broken / DRAWS <= DELTA + SLACK


def test_the_same_image_twice_is_refused_and_what_was_not_checked_is_said():
    uncertainty = torch.linspace(0, 1, 200)
    with pytest.raises(ValueError, match="image 7 occurs 2 times: copies of an image fail together"):
        risk_threshold(uncertainty, uncertainty > 2, 0.1, GRID, images=torch.arange(200).where(uncertainty < 1, 7))
    trusted = risk_threshold(uncertainty, uncertainty > 2, 0.1, GRID)
    checked = risk_threshold(uncertainty, uncertainty > 2, 0.1, GRID, images=torch.arange(200))
    assert "not checked" in trusted.assumptions and "not checked" not in checked.assumptions
    assert "Under a shift of the data nothing is promised" in checked.assumptions


@pytest.mark.parametrize(("errors", "trials", "level"), [(0, 59, 0.05), (3, 100, 0.01), (50, 51, 0.2), (0, 1, 0.5)])
def test_the_bound_is_that_of_clopper_and_pearson(errors, trials, level):
    bound = clopper_pearson_upper(errors, trials, level)
    assert bound == pytest.approx(stats.binomtest(errors, trials).proportion_ci(1 - 2 * level, "exact").high)
    assert stats.binom.cdf(errors, trials, bound) == pytest.approx(level)


def test_without_accepted_answers_or_with_errors_only_nothing_is_known():
    assert clopper_pearson_upper(0, 0, 0.05) == 1 and clopper_pearson_upper(4, 4, 0.05) == 1


def test_a_threshold_carries_its_counts_and_a_sentence():
    uncertainty = torch.linspace(0, 1, 1000)
    found = risk_threshold(uncertainty, uncertainty > 0.62, 0.05, GRID)
    assert found.found and found.accepted == int((uncertainty.double() <= found.threshold).sum())
    assert found.errors == int(((uncertainty > 0.62) & (uncertainty.double() <= found.threshold)).sum())
    assert found.bound <= 0.05 and found.calibration_images == 1000
    assert found.sentence == (
        "of the answers with an uncertainty of at most 0.6, at most 0.05 are wrong, with 95% confidence: 600 of 1000 "
        "calibration images were accepted and 0 of those were wrong"
    )


@pytest.mark.parametrize("images", [20, 2000])
def test_where_no_threshold_will_do_nothing_is_accepted_and_the_sentence_says_so(images):
    uncertainty = torch.linspace(0, 1, images)
    none = risk_threshold(uncertainty, torch.arange(images) % (1000 if images == 20 else 3) == 0, 0.05, GRID)
    assert none.threshold == -math.inf and not none.found
    assert (none.accepted, none.errors, none.bound) == (0, 0, 1.0)
    assert "no threshold keeps errors among accepted answers below 0.05" in none.sentence
    assert f"{images} calibration images" in none.sentence and "at least 59 without an error" in none.sentence


def test_as_many_images_as_are_needed_are_enough_and_one_less_is_not():
    needed = images_needed(0.05, 0.9)
    grid, right = torch.tensor([1.0]), torch.zeros(needed).bool()
    assert risk_threshold(torch.rand(needed), right, 0.05, grid, 0.9).found
    assert not risk_threshold(torch.rand(needed - 1), right[1:], 0.05, grid, 0.9).found


def test_a_failure_on_the_way_does_not_end_the_search():
    """Ten sure errors at the start cost the levels of the first thresholds, not those that come after."""
    uncertainty = torch.linspace(0, 1, 4000)
    found = risk_threshold(uncertainty, uncertainty < 0.004, 0.05, GRID)
    assert found.threshold == pytest.approx(1) and found.errors == 16


def test_a_grid_has_even_steps_of_coverage_and_equal_values_once():
    other = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    grid = threshold_grid(other, images=885, target_risk=0.05, points=10)  # 1.5 × 59 of 885 are a tenth
    assert [(other.double() <= t).sum().item() for t in grid] == list(range(100, 1001, 100))
    assert threshold_grid(torch.full((50,), 0.3), 500, 0.05).tolist() == [pytest.approx(0.3)]
    too_few = threshold_grid(other, images=60, target_risk=0.05)
    assert too_few.tolist() == [pytest.approx(other.max().item())]  # all or none


def test_one_pose_of_each_image_is_taken_repeatably():
    picked = one_pose_per_image(16, 8000, seed=1)
    assert torch.equal(picked, one_pose_per_image(16, 8000, seed=1))
    counts = torch.bincount(picked, minlength=16)
    assert len(counts) == 16 and counts.min() > 400 and counts.max() < 600
    assert one_pose_per_image(1, 3).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="a group of order 0"):
        one_pose_per_image(0, 3)


def test_bad_values_are_refused_with_a_sentence():
    u = torch.rand(16, 50)
    with pytest.raises(ValueError, match="take one_pose_per_image"):
        risk_threshold(u, u > 0.5, 0.1, GRID)
    with pytest.raises(ValueError, match="target_risk=0: between 0 and 1"):
        risk_threshold(u[0], u[0] > 0.5, 0, GRID)
    with pytest.raises(ValueError, match="confidence=95"):
        risk_threshold(u[0], u[0] > 0.5, 0.1, GRID, confidence=95)
    with pytest.raises(ValueError, match="50 uncertainties are NaN"):
        risk_threshold(u[0] * torch.nan, u[0] > 0.5, 0.1, GRID)
    with pytest.raises(ValueError, match="row of finite thresholds"):
        risk_threshold(u[0], u[0] > 0.5, 0.1, torch.zeros(0))
    with pytest.raises(ValueError, match="as many image numbers"):
        risk_threshold(u[0], u[0] > 0.5, 0.1, GRID, images=torch.arange(3))
    with pytest.raises(ValueError, match="a grid of 0 thresholds"):
        threshold_grid(u, 50, 0.1, points=0)
