"""Risk and coverage against an independent computation, and what a ranking may not depend on."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torch import Tensor

from tokenstn.evaluation.selective import Ranking, aurc, auroc, excess_aurc, risk_coverage, thin_curve

# few values, so that ties are the rule
ANSWERS = st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=1, max_size=40)


def tensors(answers: list[tuple[int, bool]]) -> tuple[Tensor, Tensor]:
    uncertainty, wrong = zip(*answers, strict=True)
    return torch.tensor(uncertainty, dtype=torch.float64), torch.tensor(wrong)


def expected_risks(uncertainty: Tensor, wrong: Tensor) -> Tensor:
    """O(n²): each answer is among the first k with the probability that a random order of the ties gives it."""
    before = (uncertainty[None] < uncertainty[:, None]).sum(1).double()
    equal = (uncertainty[None] == uncertainty[:, None]).sum(1).double()
    k = torch.arange(1, len(wrong) + 1, dtype=torch.float64)
    included = ((k[:, None] - before) / equal).clamp(0, 1)
    return (included * wrong.double()).sum(1) / k


@settings(deadline=None)
@given(ANSWERS)
def test_the_curve_and_its_area_are_those_of_an_independent_computation(answers):
    uncertainty, wrong = tensors(answers)
    coverages, risks = risk_coverage(uncertainty, wrong)
    wanted = expected_risks(uncertainty, wrong)
    torch.testing.assert_close(risks, wanted)
    assert coverages[-1] == 1 and risks[-1].item() == pytest.approx(wrong.double().mean().item())
    assert aurc(uncertainty, wrong) == pytest.approx(wanted.mean().item())


@settings(deadline=None)
@given(ANSWERS)
def test_the_oracle_is_the_best_of_all_rankings(answers):
    uncertainty, wrong = tensors(answers)
    oracle = expected_risks(wrong.double() + torch.arange(len(wrong)) * 1e-6, wrong).mean().item()
    assert excess_aurc(uncertainty, wrong) == pytest.approx(aurc(uncertainty, wrong) - oracle, abs=1e-12)
    assert excess_aurc(uncertainty, wrong) >= -1e-12 and excess_aurc(wrong.double(), wrong) == pytest.approx(
        0, abs=1e-12
    )
    assert 0 <= aurc(uncertainty, wrong) <= 1


@settings(deadline=None)
@given(ANSWERS)
def test_auroc_is_that_of_scikit_learn(answers):
    uncertainty, wrong = tensors(answers)
    if wrong.all() or not wrong.any():
        assert auroc(uncertainty, wrong) is None
    else:
        assert auroc(uncertainty, wrong) == pytest.approx(roc_auc_score(wrong, uncertainty))


@settings(deadline=None)
@given(ANSWERS, st.randoms(use_true_random=False))
def test_neither_the_order_of_the_data_nor_a_monotone_transformation_matters(answers, random):
    uncertainty, wrong = tensors(answers)
    shuffled = list(answers)
    random.shuffle(shuffled)
    for same in (tensors(shuffled), (uncertainty**3, wrong), (uncertainty.exp(), wrong)):
        assert aurc(*same) == pytest.approx(aurc(uncertainty, wrong))
        assert auroc(*same) == (None if auroc(uncertainty, wrong) is None else pytest.approx(auroc(uncertainty, wrong)))


@settings(deadline=None)
@given(ANSWERS, st.integers(0, 2**32 - 1))
def test_a_weight_is_as_many_copies(answers, seed):
    uncertainty, wrong = tensors(answers)
    weights = np.random.default_rng(seed).integers(0, 4, size=len(wrong))
    weights[0] = max(weights[0], 1)
    copies = torch.from_numpy(np.repeat(np.arange(len(wrong)), weights))
    weighted, copied = Ranking.of(uncertainty, wrong), Ranking.of(uncertainty[copies], wrong[copies])
    assert weighted.aurc(weights) == pytest.approx(copied.aurc())
    assert weighted.auroc(weights) == (None if copied.auroc() is None else pytest.approx(copied.auroc()))


def test_one_uncertainty_for_all_has_no_skill():
    same, wrong = torch.zeros(40), torch.arange(40) < 10
    assert auroc(same, wrong) == 0.5 and aurc(same, wrong) == pytest.approx(0.25)


@pytest.mark.parametrize("answers", [1, 5, 101, 102, 1000])
def test_a_thinned_curve_keeps_its_ends_and_at_most_101_points(answers):
    generator = torch.Generator().manual_seed(0)
    coverages, risks = risk_coverage(torch.rand(answers, generator=generator), torch.arange(answers) % 3 == 0)
    curve = thin_curve(coverages, risks)
    assert len(curve) == min(answers, 101)
    assert curve[0] == (coverages[0].item(), risks[0].item()) and curve[-1] == (1.0, risks[-1].item())
    assert all(a[0] < b[0] for a, b in pairwise(curve))


def test_what_cannot_be_ranked_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="1 of 2 uncertainties are NaN"):
        auroc(torch.tensor([0.1, torch.nan]), torch.tensor([True, False]))
    with pytest.raises(ValueError, match="no answers to rank"):
        aurc(torch.zeros(0), torch.zeros(0))
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\)"):
        risk_coverage(torch.zeros(2), torch.zeros(3))
    with pytest.raises(ValueError, match="at least its two ends"):
        thin_curve(torch.ones(3), torch.ones(3), points=1)
