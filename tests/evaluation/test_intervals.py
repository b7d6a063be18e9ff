"""Intervals that know what belongs together."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from tests.evaluation.general_bootstrap import cluster_bootstrap
from tokenstn.evaluation.intervals import (
    cluster_mean_interval,
    paired_difference,
    resampled_weights,
    share_interval,
    standard_error,
    wilson_interval,
)
from tokenstn.evaluation.results import Interval
from tokenstn.evaluation.selective import Ranking


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_whole_clusters_are_drawn():
    clusters = torch.tensor([7, 3, 7, 3, 3, 11])
    for weights in resampled_weights(clusters, draws=20):
        assert weights[0] == weights[2] and weights[1] == weights[3] == weights[4]
        assert weights[[0, 1, 5]].sum() == 3


def test_the_quick_way_for_means_is_the_general_one():
    values, clusters = random(200), torch.arange(200) % 37
    numbers = values.numpy()
    general = cluster_bootstrap(lambda w: float(np.dot(w, numbers) / w.sum()), clusters, draws=100, seed=3)
    assert general is not None
    quick = cluster_mean_interval(values, clusters, draws=100, seed=3)
    for name in ("value", "low", "high"):
        assert getattr(quick, name) == pytest.approx(getattr(general, name))


def test_elements_and_images_may_be_given_as_they_are():
    values = random(4, 50)
    flat = cluster_mean_interval(values.flatten(), torch.arange(50).repeat(4))
    assert cluster_mean_interval(values, torch.arange(50)) == flat


def test_independent_answers_get_the_interval_of_the_normal_approximation():
    values = random(2000)
    interval = cluster_mean_interval(values, torch.arange(2000))
    half = 1.96 * values.std().item() / 2000**0.5
    assert interval.value == pytest.approx(values.mean().item())
    assert interval.high - interval.low == pytest.approx(2 * half, rel=0.1)


def test_copies_of_an_image_add_no_certainty():
    image = random(100)
    once = cluster_mean_interval(image, torch.arange(100))
    copies = cluster_mean_interval(image.expand(16, 100), torch.arange(100))
    naive = cluster_mean_interval(image.expand(16, 100), torch.arange(1600).reshape(16, 100))
    assert (copies.low, copies.high) == pytest.approx((once.low, once.high))
    assert naive.high - naive.low < 0.4 * (once.high - once.low)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    covered = 0
    for seed in range(200):
        values = random(60, seed=seed)
        interval = cluster_mean_interval(values, torch.arange(60), draws=200, seed=seed)
        covered += interval.low <= 0.5 <= interval.high
    assert 0.88 <= covered / 200 <= 0.99  # 60 clusters: slightly too narrow, and the noise of 200 draws


def test_a_paired_difference_is_narrower_than_two_unpaired_ones():
    hard = random(300)
    a, b = hard + 0.05 + 0.01 * random(300, seed=1), hard + 0.01 * random(300, seed=2)
    difference = paired_difference(a, b, torch.arange(300))
    assert difference.value == pytest.approx((a - b).mean().item()) and difference.low > 0.04
    unpaired = cluster_mean_interval(a, torch.arange(300))
    assert difference.high - difference.low < 0.1 * (unpaired.high - unpaired.low)
    right, other = torch.tensor([[True, False]]), torch.tensor([[False, False]])
    assert paired_difference(right, other, torch.arange(2)).value == 0.5


@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_a_difference_that_is_none_leaves_out_0_in_one_of_20_samples_however_few_clusters(count):
    """Six copies of each image, which succeed or fail together."""
    generator, found = torch.Generator().manual_seed(count), 0
    for _ in range(400):
        shift = 0.2 * torch.randn(count, generator=generator, dtype=torch.float64)
        a = (0.5 + shift.clamp(-0.5, 0.5)).expand(6, count)
        interval = paired_difference(a, torch.full_like(a, 0.5), torch.arange(count))
        found += interval.low > 0 or interval.high < 0
    assert found / 400 <= 0.08


def test_one_cluster_or_answers_that_all_differ_alike_tell_little():
    a, b = torch.tensor([[1.0, 1, 0]]), torch.tensor([[0.0, 1, 0]])
    assert paired_difference(a, b, torch.zeros(3)) == Interval(pytest.approx(1 / 3), -1.0, 1.0)
    same = paired_difference(a, a, torch.arange(3))
    assert same.value == 0.0 and same.high == -same.low == pytest.approx(0.7076, abs=1e-4)  # 1 − 0.025^⅓
    assert paired_difference(torch.ones(3), torch.zeros(3), torch.arange(3)).low == pytest.approx(0.2924, abs=1e-4)
    many = paired_difference(torch.ones(1000), torch.ones(1000), torch.arange(1000))
    assert 0 < many.high < 0.004


def test_a_difference_has_the_interval_of_a_paired_t_test_and_of_the_bootstrap():
    a, b = random(40), random(40, seed=1)
    found = paired_difference(a, b, torch.arange(40))
    wanted = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    uneven = torch.arange(3000) % 7 * 100 + torch.arange(3000) % 300  # clusters of unequal sizes
    values = random(3000)
    error = cluster_mean_interval(values, uneven, draws=4000)
    assert 2 * 1.96 * standard_error(values, uneven) == pytest.approx(error.high - error.low, rel=0.06)


def test_the_same_seed_gives_the_same_interval():
    ranking = Ranking.of(random(100), random(100, seed=1) < 0.3)
    first, again, other = (cluster_bootstrap(ranking.auroc, torch.arange(100), 50, seed) for seed in (0, 0, 1))
    assert first == again != other


def test_an_undefined_statistic_has_no_interval_and_undefined_draws_are_left_out():
    assert cluster_bootstrap(Ranking.of(random(5), torch.zeros(5)).auroc, torch.arange(5)) is None
    rare = cluster_bootstrap(Ranking.of(random(5), torch.arange(5) == 0).auroc, torch.arange(5), draws=50)
    assert rare is not None and 0 <= rare.low <= rare.high <= 1
    assert cluster_mean_interval(torch.ones(3), torch.zeros(3)) == Interval(1.0, 1.0, 1.0)


@pytest.mark.parametrize("images", [6, 18, 500])
def test_where_nothing_fails_the_interval_is_that_of_clopper_and_pearson(images):
    exact = stats.binomtest(images, images).proportion_ci(0.95, "exact")
    all_right, none = torch.ones(3, images), torch.zeros(3, images)  # at three poses each
    for found in (share_interval(all_right, torch.arange(images)), share_interval(none, torch.arange(images))):
        assert found.high - found.low == pytest.approx(exact.high - exact.low, abs=1e-4)
    pairs = torch.arange(images) // 2  # a patient has two images
    assert share_interval(all_right, pairs).low < share_interval(all_right, torch.arange(images)).low
    some = torch.tensor([1.0, 1.0, 0.0, 1.0])
    assert share_interval(some, torch.arange(4)) == cluster_mean_interval(some, torch.arange(4))


@pytest.mark.parametrize(("right", "images"), [(0, 5), (7, 20), (20, 20), (61, 156)])
def test_what_only_a_share_and_a_count_are_known_of_has_wilsons_interval(right, images):
    exact = stats.binomtest(right, images).proportion_ci(0.95, "wilson")
    low, high = wilson_interval(torch.tensor(right / images, dtype=torch.float64), torch.tensor(images))
    assert (low.item(), high.item()) == pytest.approx((exact.low, exact.high), abs=1e-4)


@pytest.mark.parametrize("images", [6, 18, 100])
def test_one_more_right_answer_never_lowers_an_end_of_the_interval(images):
    order = torch.arange(images)
    for fewer, more in pairwise(share_interval((order < right).float(), order) for right in range(images + 1)):
        assert fewer.low <= more.low and fewer.high <= more.high


def test_what_cannot_be_drawn_from_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="no answers to draw from"):
        cluster_mean_interval(torch.zeros(0), torch.zeros(0))
    with pytest.raises(ValueError, match=r"clusters of shape \(3,\) do not go with values of shape \(2, 4\)"):
        cluster_mean_interval(torch.zeros(2, 4), torch.zeros(3))
    with pytest.raises(ValueError, match="draws=0"):
        cluster_mean_interval(torch.zeros(2), torch.arange(2), draws=0)
    with pytest.raises(ValueError, match="the same images and the same group"):
        paired_difference(torch.zeros(2), torch.zeros(3), torch.arange(2))


def test_a_cluster_that_holds_half_of_the_answers_does_not_make_the_interval_too_narrow():
    generator = np.random.default_rng(0)
    sizes = np.array([10] * 9 + [90])
    clusters, hit = np.repeat(np.arange(10), sizes), 0
    for _ in range(400):
        a = 0.5 + generator.normal(0, 0.1, 10)[clusters] + generator.normal(0, 0.02, len(clusters))
        found = paired_difference(torch.tensor(a), torch.full((len(clusters),), 0.5), torch.tensor(clusters))
        hit += found.low <= 0 <= found.high
    assert 0.92 < hit / 400 < 0.99, "with as many degrees of freedom as there are clusters it was 0.86"
