"""The Gaussian before the squashing: bounded log-variance, and a divergence that acts on the width only."""

import math

import pytest
import torch
from scipy import integrate, stats
from torch.distributions import Normal, kl_divergence

from tokenstn.geometry import OneSidedScale, Reflection, Rotation, Scale, Shear, Translation
from tokenstn.posteriors import Gaussian

LINES = [Scale(), OneSidedScale(), Shear(), Translation()]
SMOOTH = [Rotation(), Rotation(0.5), *LINES]


def belief(primitive, centre=0.0, width=0.0, dtype=torch.float64):
    """One belief for each width, all around the same centre."""
    width = torch.as_tensor(width, dtype=dtype).reshape(-1, 1).expand(-1, primitive.components)
    return Gaussian(primitive, torch.cat((torch.full_like(width, centre), width), -1))


WIDTHS = [-3.0, -0.8, -0.2, 0.0, 0.3, 0.6, 0.9, 3.0]


def test_the_variance_is_bounded_as_the_paper_says():
    logarithms = 2 * belief(Shear(), width=[-50.0, 0.0, 50.0]).width.log().squeeze(-1)
    torch.testing.assert_close(logarithms, torch.tensor([-10.0, -4.0, 2.0], dtype=torch.float64))


@pytest.mark.parametrize("primitive", SMOOTH, ids=repr)
def test_the_density_is_that_of_the_normal_with_the_variables_changed(primitive):
    made = belief(primitive, 0.2, [-0.2, 0.3])
    u = torch.tensor([[-0.3, 0.1, 0.6], [0.0, 0.4, -0.2]], dtype=torch.float64).requires_grad_()
    value = primitive.squash(u)
    (slope,) = torch.autograd.grad(value.sum(), u)
    expected = Normal(0.2, made.width[:, :1]).log_prob(u) - slope.abs().log()
    if primitive.components == 2:
        value, expected = torch.stack((value, value), -1), 2 * expected
    torch.testing.assert_close(made.log_prob(value), expected)


@pytest.mark.parametrize("primitive", LINES, ids=repr)
def test_the_divergence_is_that_of_two_normals_around_one_mean(primitive):
    made = belief(primitive, 0.7, WIDTHS)
    expected = kl_divergence(Normal(made.centre, made.width), Normal(made.centre, torch.ones_like(made.centre))).sum(-1)
    torch.testing.assert_close(made.kl(), expected)


def wrapped(angle, width):
    return sum(math.exp(-0.5 * ((angle + 2 * math.pi * k) / width) ** 2) for k in range(-20, 21)) / (
        width * math.sqrt(2 * math.pi)
    )


@pytest.mark.parametrize("raw_width", WIDTHS)
def test_the_wrapped_divergence_agrees_with_adaptive_quadrature(raw_width):
    made = belief(Rotation(), 1.3, raw_width)
    width = made.width.item()

    def integrand(angle):
        density = wrapped(angle, width)
        return density * math.log(density / wrapped(angle, 1.0)) if density > 0 else 0.0

    expected, _ = integrate.quad(integrand, 0, min(math.pi, 12 * width), epsabs=1e-13)
    assert made.kl().item() == pytest.approx(2 * expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("primitive", SMOOTH, ids=repr)
@pytest.mark.parametrize("raw_width", [-0.4, 0.5])
def test_the_divergence_does_not_pull_on_the_mean(primitive, raw_width):
    raw = belief(primitive, 0.4, raw_width).raw.clone().requires_grad_()
    (slope,) = torch.autograd.grad(Gaussian(primitive, raw).kl().sum(), raw)
    assert bool((slope[:, : primitive.components] == 0).all())
    assert bool((slope[:, primitive.components :] < 0).all())  # narrower than the prior: wants to widen


def test_the_divergence_vanishes_at_the_width_of_the_prior():
    for primitive in SMOOTH:
        assert belief(primitive, 0.3, math.atanh(2 / 3)).kl().abs().max() < 1e-9


def test_a_reflection_has_no_divergence():
    assert belief(Reflection(), 0.5, [-1.0, 0.0]).kl().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("primitive", SMOOTH, ids=repr)
def test_a_wider_belief_has_more_entropy_and_more_spread(primitive):
    centre = primitive.unsquash(torch.tensor(sum(primitive.range) / 2, dtype=torch.float64)).item()
    made = belief(primitive, centre, [-3.0, -0.5, -0.1, 0.1, 0.3])
    assert bool((made.entropy().diff() > 0).all()) and bool((made.spread().diff() > 0).all())


@pytest.mark.parametrize("primitive", [Rotation(), Scale(), Shear(), Translation(), Reflection()], ids=repr)
def test_a_sharp_belief_at_the_identity_has_almost_no_entropy(primitive):
    assert belief(primitive, primitive.start, -9.0).entropy().item() < 0.01


def test_a_reflection_on_the_fence_is_wholly_uncertain():
    made = belief(Reflection(), 0.0, 0.3)
    assert made.entropy().item() == pytest.approx(1.0) and made.spread().item() == pytest.approx(1.0)
    assert made.candidates(2).masses.tolist() == [[0.5, 0.5]]


def test_the_probability_of_a_reflection_is_the_mass_on_its_side():
    made = belief(Reflection(), -0.1, 0.1)
    chance = stats.norm(-0.1, made.width.item()).cdf(0)
    found = made.candidates(2)
    assert found.values.tolist() == [[-1.0, 1.0]]
    assert found.masses[0].tolist() == pytest.approx([chance, 1 - chance])
    assert made.log_prob(torch.tensor([-1.0])).exp().item() == pytest.approx(chance)
    assert made.candidates(1).masses.item() == pytest.approx(chance)


def test_an_unlikely_side_still_has_a_finite_log_probability_and_gradient():
    raw = torch.tensor([[5.0, -3.0]], requires_grad=True)
    loss = -Gaussian(Reflection(), raw).log_prob(torch.tensor([-1.0]))
    (slope,) = torch.autograd.grad(loss.sum(), raw)
    assert bool(torch.isfinite(loss).all() and torch.isfinite(slope).all()) and slope[0, 0] > 0


@pytest.mark.parametrize("primitive", SMOOTH, ids=repr)
def test_a_continuous_belief_has_one_view_which_carries_all(primitive):
    made = belief(primitive, 0.2, [0.0, 0.3])
    found = made.candidates(10)
    assert found.masses.tolist() == [[1.0], [1.0]]
    torch.testing.assert_close(found.values[:, 0], made.best())


@pytest.mark.parametrize("primitive", SMOOTH, ids=repr)
def test_the_density_is_finite_at_the_ends_of_the_range(primitive):
    made = belief(primitive, 0.2, 0.0, dtype=torch.float32)
    for end in primitive.range:
        value = torch.full((1, 2) if primitive.components == 2 else (1,), end)
        assert bool(torch.isfinite(made.log_prob(value)).all())


@pytest.mark.parametrize("bound", [0.05, 0.3, 1.0])
def test_the_spread_of_small_angles_is_right_in_single_precision(bound):
    single, double = (belief(Rotation(bound), 0.2, -0.5, dtype).spread() for dtype in (torch.float32, torch.float64))
    torch.testing.assert_close(single.double(), double, rtol=0.01, atol=0)


@pytest.mark.parametrize("bound", [0.3, 0.55, 0.7, 0.75, 0.9, 0.99])
def test_a_scale_has_all_of_its_mass_below_the_largest(bound):
    made = belief(Scale(bound), 0.0, 0.0)
    ends = made.cdf(torch.tensor(Scale(bound).range, dtype=torch.float64))
    assert ends.flatten().tolist() == pytest.approx([0.0, 1.0])
