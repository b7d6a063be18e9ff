"""Calibration against torchmetrics and by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics.functional.classification import binary_calibration_error

from tokenstn.evaluation.calibration import calibration


def scores(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(n, generator=generator), torch.rand(n, generator=generator)


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_the_error_is_that_of_torchmetrics(bins):
    confidence, other = scores(2000)
    right = other < confidence**2
    found = calibration(confidence, right, *scores(2000), bins=bins)
    # theirs takes the confidence in "yes" and whether yes was true, for any binary event: ours is being right
    wanted = binary_calibration_error(confidence, right.long(), n_bins=bins, norm="l1")
    assert found.ece == pytest.approx(wanted.item(), abs=1e-5)
    assert found.nll == pytest.approx(scores(2000)[0].mean().item())
    assert found.brier == pytest.approx(scores(2000)[1].mean().item())


def test_the_bins_hold_all_answers_and_give_the_error():
    confidence, other = scores(500)
    found = calibration(confidence, other < confidence, confidence, confidence)
    assert sum(b.count for b in found.bins) == 500 and len(found.bins) == 15
    assert found.ece == pytest.approx(sum(b.count * abs(b.confidence - b.accuracy) for b in found.bins) / 500)
    assert all(b.low < b.confidence <= b.high for b in found.bins)
    assert found.ece < 0.1  # right as often as it says


def test_an_edge_belongs_to_the_bin_below_it_and_empty_bins_are_left_out():
    confidence = torch.tensor([0.0, 0.25, 0.5, 1.00001], dtype=torch.float64)
    found = calibration(confidence, torch.ones(4).bool(), confidence, confidence, bins=4)
    assert [(b.low, b.count) for b in found.bins] == [(0.0, 2), (0.25, 1), (0.75, 1)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30), st.integers(1, 20))
def test_the_error_is_a_share_whatever_the_answers(answers, bins):
    confidence, right = torch.tensor([a for a, _ in answers]), torch.tensor([b for _, b in answers])
    found = calibration(confidence, right, confidence, confidence, bins)
    backwards = calibration(confidence.flip(0), right.flip(0), confidence, confidence, bins)
    assert 0 <= found.ece <= 1 and found.ece == pytest.approx(backwards.ece)


def test_what_is_no_calibration_is_refused_with_a_sentence():
    one = torch.ones(3)
    with pytest.raises(ValueError, match=r"nll \(2,\)"):
        calibration(one, one.bool(), torch.ones(2), one)
    with pytest.raises(ValueError, match="from 0 to 1, got 3 to 3"):
        calibration(3 * one, one.bool(), one, one)
    with pytest.raises(ValueError, match="got none"):
        calibration(one[:0], one[:0], one[:0], one[:0])
    with pytest.raises(ValueError, match="bins=0"):
        calibration(one, one.bool(), one, one, bins=0)
