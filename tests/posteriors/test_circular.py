"""The ring of 36 angles: several modes, no seam, and a bound that holds."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from tokenstn.geometry import Rotation, Scale, wrap_angle
from tokenstn.posteriors import Circular, Gaussian

STEP = math.radians(10)
ANGLES = wrap_angle(torch.arange(36, dtype=torch.float64) * STEP)
angles = st.floats(-math.pi, math.pi)
fast = settings(max_examples=40, deadline=None)


def ring(logits, bound=math.pi):
    return Circular(Rotation(bound), logits.reshape(-1, 36))


def von_mises(centre, concentration=8.0):
    return concentration * torch.cos(ANGLES - centre)


def random_ring(seed=0, batch=2, bound=math.pi, spread=2.0):
    numbers = torch.randn(batch, 36, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return ring(spread * numbers, bound)


def distance(found, expected):
    """Degrees between angles, the short way round."""
    return wrap_angle(found - expected).abs().rad2deg()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bound", [math.pi, 1.0])
def test_a_fresh_ring_points_exactly_at_zero(dtype, bound):
    made = ring(Circular.initial(Rotation()).to(dtype), bound)
    assert made.best().item() == 0.0
    assert made.candidates(3).values[0, 0].item() == 0.0


@given(st.integers(0, 1000), st.floats(0.05, 1.5))
@fast
def test_a_blurred_ring_is_a_convolution_that_leaves_the_best_angle_first(seed, blur):
    made = random_ring(seed)
    plain, blurred = made.candidates(36), made.candidates(36, blur)
    torch.testing.assert_close(blurred.values[:, 0], made.best())
    torch.testing.assert_close(blurred.masses.sum(-1), torch.ones(2, dtype=torch.float64))
    # the same sum written out, angle by angle, over what the views hold without it
    apart = wrap_angle(blurred.values[:, :, None] - plain.values[:, None, :])
    expected = (plain.masses[:, None, :] * torch.exp(-0.5 * (apart / blur).square())).sum(-1)
    torch.testing.assert_close(blurred.masses, expected / expected.sum(-1, keepdim=True))


@pytest.mark.parametrize(("degrees", "views"), [(0, 36), (10, 36), (19.9, 36), (20, 18), (35, 12)])
def test_views_are_as_far_apart_as_the_belief_is_widened(degrees, views):
    found = random_ring(1).candidates(36, math.radians(degrees))
    assert found.values.shape == (2, views)
    between = wrap_angle(found.values[:, :, None] - found.values[:, None, :]).abs() + 9 * torch.eye(views)
    torch.testing.assert_close(between.amin(-1), torch.full_like(found.values, 2 * math.pi / views))
    few = random_ring(1).candidates(5, math.radians(degrees))
    torch.testing.assert_close(few.values, found.values[:, :5])


def test_a_blurred_ring_stays_in_its_bound():
    made = random_ring(3, bound=0.8)
    found = made.candidates(36, 0.5)
    assert found.values.abs().max() <= 0.8 + 2e-6
    torch.testing.assert_close(found.masses.sum(-1), torch.ones(2, dtype=torch.float64))


@given(st.integers(0, 1000), st.integers(-40, 40))
@fast
def test_rolling_the_logits_turns_the_belief(seed, bins):
    made = random_ring(seed)
    rolled = ring(made.raw.roll(bins, -1))
    turn = bins * STEP
    assert distance(rolled.best(), made.best() + turn).max() < 1e-9
    assert distance(rolled.candidates(5).values, made.candidates(5).values + turn).max() < 1e-9
    torch.testing.assert_close(rolled.candidates(5).masses, made.candidates(5).masses)
    places = torch.linspace(-3, 3, 20, dtype=torch.float64).expand(2, -1) + 0.011
    torch.testing.assert_close(rolled.log_prob(places + turn), made.log_prob(places))
    for quantity in ("entropy", "spread", "kl"):
        torch.testing.assert_close(getattr(rolled, quantity)(), getattr(made, quantity)())


@given(angles, st.floats(1, 60))
@fast
def test_the_parabola_finds_the_mean_of_a_von_mises(centre, concentration):
    assert distance(ring(von_mises(centre, concentration)).best(), centre).item() < 0.1


@given(angles, st.floats(math.radians(60), math.radians(300)))
@fast
def test_both_of_two_modes_are_among_the_candidates(centre, apart):
    both = torch.logaddexp(math.log(0.6) + von_mises(centre, 60), math.log(0.4) + von_mises(centre + apart, 60))
    found = ring(both).candidates(6)
    for mode in (centre, centre + apart):
        assert distance(found.values, mode).min() < 7.5  # the grid of views has a line within half a step of it


@given(st.integers(0, 1000), st.booleans())
@fast
def test_more_candidates_include_the_fewer(seed, symmetric):
    # a fresh ring is symmetric, so its masses come in equal pairs
    made = ring(Circular.initial(Rotation())) if symmetric else random_ring(seed)
    every = made.candidates(36)
    for n in (1, 2, 3, 5, 20, 35):
        fewer = made.candidates(n)
        assert fewer.values.shape == fewer.masses.shape == (len(made.raw), n)
        assert torch.equal(fewer.values, every.values[:, :n]) and torch.equal(fewer.masses, every.masses[:, :n])
    assert made.candidates(100).values.shape[1] == 36


@given(st.integers(0, 1000))
@fast
def test_the_masses_of_all_candidates_sum_to_one(seed):
    found = random_ring(seed).candidates(36)
    torch.testing.assert_close(found.masses.sum(-1), torch.ones(2, dtype=torch.float64))
    spacing = found.values.sort(-1).values.diff()
    torch.testing.assert_close(spacing, torch.full_like(spacing, STEP))


@given(st.integers(0, 1000))
@fast
def test_a_candidate_weighs_the_density_there_times_the_step(seed):
    made = random_ring(seed)
    found = made.candidates(36)
    torch.testing.assert_close(found.masses, made.log_prob(found.values).exp() * STEP)


def test_there_is_no_seam_at_half_a_turn():
    made = random_ring(1)
    ends = torch.tensor([-math.pi, math.pi, 3 * math.pi], dtype=torch.float64).expand(2, -1)
    torch.testing.assert_close(made.log_prob(ends), made.log_prob(ends[:, :1]).expand(2, 3))
    across = torch.tensor([math.pi - 1e-7, -math.pi + 1e-7], dtype=torch.float64).expand(2, -1)
    torch.testing.assert_close(made.log_prob(across)[:, 0], made.log_prob(across)[:, 1], rtol=0, atol=1e-4)
    samples = ring(von_mises(math.pi, 20)).sample(500, torch.Generator().manual_seed(0))
    assert samples.min() < -3 and samples.max() > 3 and distance(samples, math.pi).max() < 90


@given(st.floats(-0.2, 0.2))
@fast
def test_the_spread_is_the_same_on_the_seam_and_off_it(shift):
    for quantity in ("spread", "entropy"):
        on, off = (getattr(ring(von_mises(centre + shift)), quantity)() for centre in (math.pi, 0.0))
        torch.testing.assert_close(on, off)


def test_the_density_is_piecewise_linear_between_the_bins():
    made = random_ring(2)
    masses = made.log_masses.exp()
    at, between = made.log_prob(ANGLES.expand(2, -1)), made.log_prob((ANGLES + 0.3 * STEP).expand(2, -1))
    torch.testing.assert_close(at.exp() * STEP, masses)
    torch.testing.assert_close(between.exp() * STEP, 0.7 * masses + 0.3 * masses.roll(-1, -1))


@pytest.mark.parametrize("bound", [2 * STEP, 0.5, 1.0, 2.0, 3.1])
@given(seed=st.integers(0, 1000), spread=st.floats(0.1, 30))
@settings(max_examples=15, deadline=None)
def test_a_bounded_ring_never_leaves_its_bound(bound, seed, spread):
    made = random_ring(seed, bound=bound, spread=spread)
    found = made.candidates(36)
    inside = bound + 2e-6  # the edge of a hat may touch the bound
    assert made.best().abs().max() <= inside
    assert found.values[found.masses > 0].abs().max() <= inside
    assert made.sample(200, torch.Generator().manual_seed(seed)).abs().max() <= inside
    torch.testing.assert_close(found.masses.sum(-1), torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("n", [3, 8, 36])
def test_no_view_of_a_bounded_ring_lies_outside_its_bound(n):
    assert random_ring(3, bound=0.5).candidates(n).values.abs().max() <= 0.5 + 2e-6


def test_a_bounded_ring_is_impossible_outside_its_bound():
    made = random_ring(bound=1.0)
    outside = torch.tensor([1.05, 2.0, math.pi, -1.2], dtype=torch.float64).expand(2, -1)
    assert bool((made.log_prob(outside).exp() == 0).all())
    ends = made.cdf(torch.tensor([-1.0, 1.0], dtype=torch.float64)).squeeze(1)
    torch.testing.assert_close(ends, torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64))


@pytest.mark.parametrize("degrees", [20, 28.6, 45, 60, 119.9, 175, 180])
def test_what_a_ring_can_reach_is_possible_for_it_and_no_more(degrees):
    bound = math.radians(degrees)
    reached = Circular.reached(Rotation(bound))
    assert isinstance(reached, Rotation) and reached.bound <= bound + 1e-9 and bound - reached.bound < STEP
    angles = torch.linspace(-reached.bound + 1e-3, reached.bound - 1e-3, 300, dtype=torch.float64).expand(2, -1)
    assert bool((random_ring(bound=bound).log_prob(angles) > -30).all())


def test_too_small_a_bound_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match=r"narrower than two bins.*posterior='gaussian'"):
        ring(torch.zeros(36), bound=0.3)


def test_a_ring_of_anything_but_angles_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="for rotation, not for scale: use gaussian"):
        Circular(Scale(), torch.zeros(1, 36))


def test_a_flat_ring_is_wholly_uncertain():
    made = ring(torch.zeros(36))
    torch.testing.assert_close(made.entropy(), torch.ones(1))
    torch.testing.assert_close(made.candidates(36).masses, torch.full((1, 36), 1 / 36))
    torch.testing.assert_close(made.log_prob(torch.tensor([0.7])).exp(), torch.tensor([1 / (2 * math.pi)]))


def test_a_sharper_ring_has_less_entropy_and_less_spread_and_more_divergence():
    made = ring(torch.stack([von_mises(0.4, k) for k in (0.5, 2.0, 8.0, 40.0, 200.0)]))
    assert bool((made.entropy().diff() < 0).all()) and bool((made.spread().diff() < 0).all())
    assert bool((made.kl()[2:].diff() > 0).all())  # the prior itself has κ ≈ 1.6


def prior(angle, centre):
    """A Gaussian of one radian wrapped around the circle."""
    turns = [math.exp(-((angle - centre + 2 * math.pi * k) ** 2) / 2) for k in range(-10, 11)]
    return sum(turns) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("logits", [von_mises(0.4, 3.0), von_mises(-2.9, 20.0), random_ring(4).raw[0]])
def test_the_divergence_agrees_with_adaptive_quadrature(logits):
    made = ring(logits)
    centre = made.best().item()

    def integrand(angle):
        log_density = made.log_prob(torch.tensor([angle], dtype=torch.float64)).item()
        return math.exp(log_density) * (log_density - math.log(prior(angle, centre)))

    pieces = [integrate.quad(integrand, a, a + STEP, epsabs=1e-8)[0] for a in (k * STEP - math.pi for k in range(36))]
    assert made.kl().item() == pytest.approx(sum(pieces), rel=5e-3)  # eight nodes to each bin, and a rough ring


def test_the_gradient_of_the_divergence_leaves_the_centre_of_the_prior_alone():
    logits = random_ring(5, batch=1).raw
    centre = ring(logits).best().item()
    nodes = torch.linspace(-math.pi, math.pi, 3601, dtype=torch.float64)[:-1] + math.pi / 3600
    log_prior = torch.tensor([math.log(prior(a, centre)) for a in nodes.tolist()], dtype=torch.float64)

    def fixed_centre(raw):
        log_density = ring(raw).log_prob(nodes.unsqueeze(0))
        return (log_density.exp() * (log_density - log_prior)).sum() * (2 * math.pi / 3600)

    raw = logits.clone().requires_grad_()
    (found,) = torch.autograd.grad(ring(raw).kl().sum(), raw)
    (expected,) = torch.autograd.grad(fixed_centre(raw), raw)
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-3 * expected.abs().max().item())


def test_the_divergence_does_not_pull_on_the_mean():
    raw = von_mises(3 * STEP).requires_grad_()
    (slope,) = torch.autograd.grad(ring(raw).kl().sum(), raw)
    towards_the_side = 8.0 * torch.sin(ANGLES - 3 * STEP)  # how the logits change when the mean moves
    assert abs((slope * towards_the_side).sum().item()) < 1e-9 < slope.abs().max().item()


def test_a_gaussian_and_a_circular_of_the_same_density_agree():
    bell = Gaussian(Rotation(), torch.tensor([[0.1, 0.0], [-0.05, 0.1], [0.0, 0.2]], dtype=torch.float64))
    made = ring(bell.log_prob(ANGLES.expand(3, -1)))
    # hats of 10° widen a belief of 25° a little
    torch.testing.assert_close(made.entropy(), bell.entropy(), rtol=0, atol=0.01)
    torch.testing.assert_close(made.spread(), bell.spread(), rtol=0.05, atol=0)
    torch.testing.assert_close(made.best(), bell.best(), rtol=0, atol=math.radians(3))
