"""Differences between runs, with intervals that can be trusted."""

import dataclasses
from typing import Any

import pytest
import torch

from tokenstn.evaluation.answers_file import KeptAnswers, KeptResponses
from tokenstn.evaluation.comparison import Compared, over_the_orbit, require_comparable, upright
from tokenstn.evaluation.evaluate import evaluate
from tokenstn.evaluation.results import Interval, Scores
from tokenstn.geometry import rotation_group, rotoscale_group, shear_rotoscale_group

from .toys import bare_model, table_of

E, N = 4, 120


def scores(right: torch.Tensor | None, consistency: float = 0.5) -> Scores:
    nothing: Any = None if right is None else right.mean().item()
    interval = None if right is None else Interval(nothing, nothing - 0.05, nothing + 0.05)
    return Scores(
        upright=None if right is None else right[0].mean().item(), mean=nothing, mean_ci=interval, worst=nothing,
        best=nothing, by_element=None, confidence_by_element=(), consistency=consistency, consistency_by_element=(),
        consistency_by_image=(), by_class=None, discrimination_upright=None, discrimination_orbit=None,
        calibration=None,
    )  # fmt: skip


def compared(name: str, correct: torch.Tensor, clusters: torch.Tensor | None = None, kept: bool = True) -> Compared:
    rows = torch.arange(correct.shape[1])
    answers = KeptAnswers(
        rows, rows if clusters is None else clusters, torch.ones_like(rows).bool(),
        KeptResponses(correct, correct.long()), None,
    )  # fmt: skip
    return Compared(name, "bare", scores(correct.double()), answers if kept else None)


def two_models(seed: int, better: float = 0.1) -> tuple[torch.Tensor, torch.Tensor]:
    """Images are easy or hard for both; the second model gets a tenth of the answers right that the first gets wrong.

    Both are right with probability 0.9 on easy images, and 0.3 on hard ones.
    """
    generator = torch.Generator().manual_seed(seed)
    easy = torch.rand(N, generator=generator) < 0.5
    first = torch.rand(E, N, generator=generator) < torch.where(easy, 0.9, 0.3)
    return first, first | (torch.rand(E, N, generator=generator) < better)


def test_the_paired_interval_contains_the_truth():
    """The true difference is 0.1 of the answers that the first has wrong: 0.1 · (½ · 0.1 + ½ · 0.7) = 0.04."""
    held = 0
    for seed in range(100):
        first, second = two_models(seed)
        found = over_the_orbit(compared("b", second), compared("a", first))
        assert found.paired and found.interval is not None
        assert found.interval.value == pytest.approx(found.value)
        held += found.interval.low <= 0.04 <= found.interval.high
    assert 88 <= held <= 100


def test_pairing_narrows_the_interval_and_groups_widen_it():
    first, second = two_models(0)
    paired = over_the_orbit(compared("b", second), compared("a", first))
    unpaired = over_the_orbit(compared("b", second, kept=False), compared("a", first))
    assert not unpaired.paired and unpaired.value == pytest.approx(paired.value)
    assert paired.interval is not None and unpaired.interval is not None
    assert paired.interval.high - paired.interval.low < unpaired.interval.high - unpaired.interval.low
    assert unpaired.interval.high - unpaired.value == pytest.approx(0.05 * 2**0.5)
    copies = torch.arange(N // 4).repeat_interleave(4)  # each image four times: a quarter of the information
    first, second = first[:, :: N // 30].repeat_interleave(4, 1), second[:, :: N // 30].repeat_interleave(4, 1)
    alone = over_the_orbit(compared("b", second), compared("a", first)).interval
    grouped = over_the_orbit(compared("b", second, copies), compared("a", first)).interval
    assert alone is not None and grouped is not None
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)


def test_upright_is_the_first_element_alone():
    first, second = two_models(1)
    found = upright(compared("b", second), compared("a", first))
    assert found is not None and found.interval is not None
    assert found.interval.value == pytest.approx((second[0].double() - first[0].double()).mean().item())


def test_without_labels_agreement_is_compared():
    first, second = two_models(2)
    a, b = compared("a", first), compared("b", second)
    shares = [(x == x[:1])[1:].double().mean().item() for x in (first, second)]
    a, b = (dataclasses.replace(x, scores=scores(None, share)) for x, share in zip((a, b), shares, strict=True))
    found = over_the_orbit(b, a)
    assert upright(b, a) is None and found.interval is not None
    assert found.interval.value == pytest.approx(found.value) == pytest.approx(shares[1] - shares[0])


@pytest.fixture(scope="module")
def evaluation():
    fast = {"cost": False, "controls": False, "draws": 10, "examples": 0}

    def made(group=rotation_group(4), count=8, **options):
        return evaluate(bare_model(), table_of(count), group=group, **(fast | options)).evaluation

    return made


def test_the_same_images_and_group_may_be_compared(evaluation):
    require_comparable(["a", "b"], [evaluation(), evaluation(batch_size=3, seed=1)])


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"count": 4}, "the number of images (8 against 4)"),
        ({"split": None}, "the split (test against all)"),
        ({"group": rotoscale_group(2)}, "the group (rotation of 4 against rotoscale of 4)"),
        ({"group": rotation_group(8)}, "the group (rotation of 4 against rotation of 8)"),
        ({"labels": False}, "the labels (with against without)"),
        ({"labels": False}, "the images themselves (checksum "),
    ],
)
def test_other_images_or_movements_are_refused(evaluation, changes, part):
    with pytest.raises(ValueError, match="cannot be compared: they differ in") as refused:
        require_comparable(["a", "b"], [evaluation(), evaluation(**changes)])
    assert part in str(refused.value)


def test_a_random_shear_of_another_seed_is_refused(evaluation):
    group = shear_rotoscale_group(2, scales=1)
    with pytest.raises(ValueError, match=r"the seed of the random shear \(0 against 1\)"):
        require_comparable(["a", "b"], [evaluation(group), evaluation(group, seed=1)])
