"""The deterministic posterior: one value, nothing else."""

import math

import pytest
import torch

from tokenstn.geometry import Reflection, Rotation, Scale, Shear, Translation
from tokenstn.posteriors import Point

ALL = [Rotation(), Rotation(0.5), Scale(), Shear(), Translation(), Reflection()]
SMOOTH = ALL[:-1]


def point(primitive, u=(0.3, -0.4)):
    return Point(primitive, torch.tensor(u, dtype=torch.float64).unsqueeze(-1).expand(-1, primitive.components))


@pytest.mark.parametrize("primitive", ALL, ids=repr)
def test_a_point_is_certain(primitive):
    made = point(primitive)
    for quantity in (made.entropy(), made.spread(), made.kl()):
        assert quantity.tolist() == [0.0, 0.0]
    assert made.candidates(5).masses.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("primitive", ALL, ids=repr)
def test_the_best_every_sample_and_the_one_view_are_the_squashed_number(primitive):
    made = point(primitive)
    expected = primitive.squash(made.raw if primitive.components == 2 else made.raw.squeeze(-1))
    torch.testing.assert_close(made.best(), expected)
    torch.testing.assert_close(made.candidates(3).values, expected.unsqueeze(1))
    samples = made.sample(4)
    torch.testing.assert_close(samples, expected.unsqueeze(1).expand_as(samples))
    assert samples.shape[:2] == (2, 4)


@pytest.mark.parametrize("primitive", SMOOTH, ids=repr)
def test_supervision_is_least_squares_in_shares_of_the_range(primitive):
    made = point(primitive)
    low, high = primitive.range
    for share in (0.01, 0.03):
        near = made.best() + share * (high - low)
        loss = made.log_prob(made.best()) - made.log_prob(near)
        expected = primitive.components * 0.5 * (share / 0.05) ** 2
        torch.testing.assert_close(loss, torch.full_like(loss, expected))


def test_the_error_of_an_angle_goes_the_short_way_round():
    made = Point(Rotation(), Rotation().unsquash(torch.tensor([[math.pi - 0.1]], dtype=torch.float64)))
    across, before = (made.log_prob(torch.tensor([a], dtype=torch.float64)) for a in (-math.pi + 0.1, math.pi - 0.3))
    torch.testing.assert_close(across, before)


def test_a_bounded_angle_does_not_wrap():
    made = Point(Rotation(3.0), Rotation(3.0).unsquash(torch.tensor([[2.9]], dtype=torch.float64)))
    values = torch.tensor([[-2.9, 0.0]], dtype=torch.float64)
    assert made.log_prob(values)[0, 0] < made.log_prob(values)[0, 1]


def test_a_reflection_on_the_wrong_side_is_still_pulled_over():
    raw = torch.tensor([[3.0], [-3.0]], requires_grad=True)
    (slope,) = torch.autograd.grad(Point(Reflection(), raw).log_prob(torch.tensor([-1.0, 1.0])).sum(), raw)
    assert slope[0] < 0 < slope[1]


def test_the_cdf_steps_at_the_point():
    made = point(Shear(), u=(0.3,))
    best = made.best().item()
    assert made.cdf(torch.tensor([best - 0.01, best + 0.01])).flatten().tolist() == [0.0, 1.0]
