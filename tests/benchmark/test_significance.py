"""Paired comparisons against a computation of their own."""

import numpy as np
import pytest
import torch

from tokenstn.benchmark.significance import compare_rows
from tokenstn.evaluation.answers_file import KeptAnswers, KeptResponses


def kept(correct: np.ndarray, clusters=None) -> KeptAnswers:
    elements, images = correct.shape
    answers = KeptResponses(torch.from_numpy(correct), torch.zeros(elements, images, dtype=torch.int64))
    numbers = torch.arange(images) if clusters is None else torch.as_tensor(clusters)
    return KeptAnswers(torch.arange(images), numbers, torch.ones(images, dtype=torch.bool), answers, None)


def drawn(seed: int, share: float, shape=(4, 60)) -> np.ndarray:
    generator = np.random.default_rng(seed)
    hard = generator.random(shape[1]) * 0.4  # images differ, and their copies have that in common
    return generator.random(shape) < share - hard


def test_the_interval_is_a_bootstrap_of_images_over_all_seeds():
    ours, theirs = ({seed: drawn(10 * seed + k, share) for seed in (0, 1, 2)} for k, share in ((1, 1.0), (2, 0.9)))
    found = compare_rows(
        "a", "b", "data", "rotation", {s: kept(v) for s, v in ours.items()}, {s: kept(v) for s, v in theirs.items()}
    )
    assert found is not None
    differences = np.stack([ours[s].astype(float) - theirs[s] for s in ours])  # (seeds, elements, images)
    by_image = differences.mean((0, 1))
    generator = np.random.default_rng(99)
    samples = [by_image[generator.integers(60, size=60)].mean() for _ in range(4000)]
    low, high = np.quantile(samples, [0.025, 0.975])
    assert found.difference.value == pytest.approx(by_image.mean())
    assert found.by_seed == pytest.approx(differences.mean((1, 2)))
    assert found.difference.low == pytest.approx(low, abs=0.012)
    assert found.difference.high == pytest.approx(high, abs=0.012)
    assert found.significant == (found.difference.low > 0 or found.difference.high < 0)


def test_groups_of_images_widen_the_interval():
    ours, theirs = drawn(1, 1.0), drawn(2, 0.8)
    groups = np.repeat(np.arange(6), 10)
    ours[:, groups < 2] = True  # whole groups differ
    theirs[:, groups < 2] = False
    alone = compare_rows("a", "b", "d", "o", {0: kept(ours)}, {0: kept(theirs)})
    together = compare_rows("a", "b", "d", "o", {0: kept(ours, groups)}, {0: kept(theirs, groups)})
    assert alone is not None and together is not None
    assert together.difference.high - together.difference.low > 1.5 * (alone.difference.high - alone.difference.low)


def test_upright_looks_at_the_first_element_alone():
    ours, theirs = drawn(1, 1.0), drawn(2, 0.8)
    found = compare_rows("a", "b", "d", "o", {0: kept(ours)}, {0: kept(theirs)}, upright=True)
    assert found is not None and found.orbit == "upright"
    assert found.difference.value == pytest.approx(ours[0].mean() - theirs[0].mean())


def test_only_seeds_that_both_have_are_compared():
    answers = {seed: kept(drawn(seed, 0.9)) for seed in (0, 1)}
    found = compare_rows("a", "b", "d", "o", answers, {1: answers[1]})
    assert found is not None and found.by_seed == (0.0,) and not found.significant
    assert compare_rows("a", "b", "d", "o", {0: answers[0]}, {1: answers[1]}) is None
