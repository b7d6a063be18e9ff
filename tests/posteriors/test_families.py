"""What every family of posteriors promises, for every primitive it supports."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tokenstn.geometry import OneSidedScale, Reflection, Rotation, Scale, Shear, Translation
from tokenstn.posteriors import POSTERIORS, Circular, Gaussian, Point, Student, family_of

PRIMITIVES = [Rotation(), Rotation(1.0), Scale(), OneSidedScale(), Shear(), Translation(), Reflection()]
CASES = [(Circular, Rotation()), (Circular, Rotation(1.0))]
CASES += [(family, primitive) for family in (Gaussian, Student, Point) for primitive in PRIMITIVES]
UNCERTAIN = [(f, p) for f, p in CASES if f is not Point]
DENSITIES = [(f, p) for f, p in CASES if not isinstance(p, Reflection)]


def over(cases):
    names = [f"{family.__name__}-{primitive!r}" for family, primitive in cases]
    return pytest.mark.parametrize(("family", "primitive"), cases, ids=names)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def generic_raw(family, primitive, batch=2, seed=0):
    """Numbers as a head may predict them, away from kinks and from the ends of the range."""
    raw = torch.randn(batch, family.outputs(primitive), generator=generator(seed), dtype=torch.float64)
    if family is Circular:
        return 2 * raw
    raw = 0.3 * raw
    raw[:, primitive.components :] -= 2.0 if family is Student else 0.0
    raw[:, primitive.components :] += 0.5 if isinstance(primitive, Reflection) else 0.0  # both sides likely
    return raw


def belief(family, primitive, batch=2, seed=0):
    return family(primitive, generic_raw(family, primitive, batch, seed))


def cells(family, primitive, count):
    """Middles and widths of cells that cover the range, finer where u is squashed."""
    if family is Circular:
        edges = torch.linspace(-primitive.bound, primitive.bound, count + 1, dtype=torch.float64)
    else:
        edges = primitive.squash(torch.linspace(-6.8, 6.8, count + 1, dtype=torch.float64)).sort().values
    return (edges[1:] + edges[:-1]) / 2, edges.diff(), edges


def circular_std(angles):
    return torch.sqrt(-2 * torch.log(torch.exp(1j * angles).mean(-1).abs()))


@over(CASES)
@pytest.mark.parametrize("quantity", ["log_prob", "best", "entropy", "spread", "kl", "masses", "sample"])
def test_gradients_are_exact(family, primitive, quantity):
    places = belief(family, primitive, seed=5).sample(3, generator(1)).detach()

    def value(raw):
        made = family(primitive, raw)
        if quantity == "log_prob":
            return made.log_prob(places)
        if quantity == "masses":
            return made.candidates(3).masses
        if quantity == "sample":
            return made.sample(3, generator(2))
        return getattr(made, quantity)()

    raw = generic_raw(family, primitive).requires_grad_()
    outcome = value(raw)
    if isinstance(primitive, Reflection) and quantity in ("best", "sample"):
        assert outcome.requires_grad  # straight through on purpose: not the derivative of a step
    elif family is Circular and quantity == "kl":
        assert outcome.requires_grad  # the centre of its prior is detached on purpose: checked with the ring
    elif outcome.requires_grad:
        assert torch.autograd.gradcheck(value, raw)
    else:
        constant = family is Point or (quantity == "kl" and isinstance(primitive, Reflection))
        certain = quantity == "masses" and not isinstance(primitive, Reflection) and family is not Circular
        drawn = quantity == "sample" and family is Circular
        assert constant or certain or drawn


@over(UNCERTAIN)
@pytest.mark.parametrize("quantity", ["entropy", "spread", "kl"])
@pytest.mark.parametrize("sharpness", [-20.0, 20.0])
def test_gradients_stay_finite_for_very_sharp_and_very_wide_beliefs(family, primitive, quantity, sharpness):
    if family is Circular:
        raw = (sharpness * torch.cos(torch.arange(36) * (math.pi / 18) - 0.3)).unsqueeze(0).requires_grad_()
    else:
        raw = family.initial(primitive).unsqueeze(0)
        raw[:, primitive.components :] = -sharpness
        raw.requires_grad_()
    value = getattr(family(primitive, raw), quantity)()
    assert bool(torch.isfinite(value).all())
    if value.requires_grad:
        assert bool(torch.isfinite(torch.autograd.grad(value.sum(), raw)[0]).all())


@over(DENSITIES)
def test_the_density_integrates_to_one(family, primitive):
    middles, widths, _ = cells(family, primitive, 7200 if primitive.components == 1 else 600)
    if primitive.components == 2:
        middles, widths = torch.cartesian_prod(middles, middles), torch.cartesian_prod(widths, widths).prod(-1)
    made = belief(family, primitive)
    total = (made.log_prob(middles.expand(2, *middles.shape)).exp() * widths).sum(-1)
    # beyond |u| = 6.8 the heavy tails of Student's t keep up to 1/2 (width / 6.8)² on each side and component
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=8e-3 if family is Student else 5e-4)


@pytest.mark.parametrize("family", [Gaussian, Student, Point])
def test_the_probabilities_of_a_reflection_sum_to_one(family):
    made = belief(family, Reflection())
    both = torch.tensor([[1.0, -1.0]], dtype=torch.float64).expand(2, 2)
    torch.testing.assert_close(made.log_prob(both).exp().sum(-1), torch.ones(2, dtype=torch.float64))


@over([(f, p) for f, p in DENSITIES if f is not Point and p.components == 1])
def test_the_cdf_is_the_integral_of_the_density(family, primitive):
    middles, widths, edges = cells(family, primitive, 7200)
    made = belief(family, primitive)
    below = (made.log_prob(middles.expand(2, -1)).exp() * widths).cumsum(-1)
    found = made.cdf(edges).squeeze(1)
    torch.testing.assert_close(found[:, 1:] - found[:, :1], below, rtol=0, atol=1e-4)
    # the end of a scale's range is rounded, so its u is 18 rather than ∞, which Student's tails notice
    ends = made.cdf(torch.tensor(primitive.range, dtype=torch.float64)).squeeze(1)
    torch.testing.assert_close(ends, torch.tensor([[0.0, 1.0]]).double().expand(2, 2), rtol=0, atol=1e-3)


@over(DENSITIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_of_the_mass_lies_inside_the_range(family, primitive, dtype):
    made = family(primitive, generic_raw(family, primitive).to(dtype))
    outside = made.cdf(torch.tensor([-9.0, 9.0], dtype=dtype))
    expected = torch.tensor([0.0, 1.0], dtype=dtype).expand_as(outside)
    torch.testing.assert_close(outside, expected, rtol=0, atol=1e-3)  # ends of a range are rounded, as above


@pytest.mark.parametrize("bound", [0.5, 0.75, 0.8, 0.9])
def test_no_scale_lies_below_its_range_however_small_it_is_believed_to_be(bound):
    sure = Gaussian(Scale(bound), torch.tensor([[-10.0, -1.0]]))
    below, above = sure.cdf(torch.tensor([bound / 2, 2 / bound])).flatten().tolist()
    assert (below, above) == (0.0, 1.0)


@over([(family, primitive) for family, primitive in UNCERTAIN if family is not Circular])
def test_the_gradient_of_the_spread_stays_finite_where_every_value_is_the_end_of_the_range(family, primitive):
    raw = torch.full((1, family.outputs(primitive)), 100.0)
    raw[:, primitive.components :] = family.initial_width()
    raw.requires_grad_()
    (gradient,) = torch.autograd.grad(family(primitive, raw).spread().sum(), raw)
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("family", [Gaussian, Student])
def test_a_translation_is_two_independent_components(family):
    raw = generic_raw(family, Translation())
    both = family(Translation(), raw)
    one, two = (family(Shear(Translation().bound), raw[:, [k, k + 2]]) for k in (0, 1))
    values = both.sample(4, generator())
    torch.testing.assert_close(both.log_prob(values), one.log_prob(values[..., 0]) + two.log_prob(values[..., 1]))
    edges = torch.linspace(-0.1, 0.1, 9, dtype=torch.float64)
    torch.testing.assert_close(both.cdf(edges), torch.cat((one.cdf(edges), two.cdf(edges)), 1))
    torch.testing.assert_close(both.entropy(), (one.entropy() + two.entropy()) / 2)
    torch.testing.assert_close(both.spread(), torch.sqrt((one.spread() ** 2 + two.spread() ** 2) / 2))


@over([(f, p) for f, p in DENSITIES if f is not Point])
def test_samples_follow_the_density(family, primitive):
    made = belief(family, primitive, batch=1)
    samples = made.sample(3000, generator(3)).reshape(3000, -1)
    for component in range(primitive.components):

        def below(values, component=component):
            return made.cdf(torch.from_numpy(np.asarray(values)))[0, component].numpy()

        # the generator is fixed, so this is no lottery: a wrong distribution has a p-value of nearly 0
        assert stats.kstest(samples[:, component].numpy(), below).pvalue > 1e-3


@pytest.mark.parametrize("family", [Gaussian, Student])
def test_sampled_reflections_follow_their_probabilities(family):
    made = family(Reflection(), torch.tensor([[0.15, -0.5]], dtype=torch.float64))
    samples = made.sample(4000, generator(4))
    both = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    seen = [(samples == value).sum().item() for value in both[0]]
    assert sum(seen) == 4000
    assert stats.chisquare(seen, 4000 * made.log_prob(both).exp()[0].numpy()).pvalue > 1e-3


@over(CASES)
def test_a_seed_decides_the_samples(family, primitive):
    made = belief(family, primitive)
    drawn = made.sample(8, generator(7))
    assert drawn.shape == (2, 8, 2) if primitive.components == 2 else (2, 8)
    assert torch.equal(drawn, made.sample(8, generator(7)))
    if family is not Point and not isinstance(primitive, Reflection):
        assert not torch.equal(drawn, made.sample(8, generator(8)))


@over(UNCERTAIN)
def test_the_spread_is_the_deviation_of_samples(family, primitive):
    made = belief(family, primitive)
    samples = made.sample(40000, generator(9))
    if isinstance(primitive, Rotation):
        expected = circular_std(samples)
    elif primitive.components == 2:
        expected = samples.var(1).mean(-1).sqrt()
    else:
        expected = samples.std(1)
    # 40,000 samples know a deviation to 1 % even with tails four times as heavy as the Gaussian's
    torch.testing.assert_close(made.spread(), expected, rtol=0.03, atol=0)


@over(CASES)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_whatever_the_network_says_the_belief_is_sound(family, primitive, data):
    numbers = st.floats(-30, 30, width=32)
    size = family.outputs(primitive)
    raw = torch.tensor([data.draw(st.lists(numbers, min_size=size, max_size=size))])
    made = family(primitive, raw)
    low, high = primitive.range
    rounding = 1e-5 * max(1.0, high)
    found = made.candidates(5)
    drawn = made.sample(5, generator())
    for values in (made.best(), found.values[found.masses > 0], drawn):
        assert bool(((values >= low - rounding) & (values <= high + rounding)).all())
    torch.testing.assert_close(found.values[:, 0], made.best())
    assert bool((found.masses >= 0).all()) and found.masses.sum() <= 1 + 1e-5
    assert bool((found.masses[:, 1:].diff() <= 5e-5).all())  # near ties go by place
    assert 0 <= made.entropy().item() <= 1 and made.spread().item() >= 0 and made.kl().item() >= -1e-5
    assert made.entropy().shape == made.spread().shape == made.kl().shape == (1,)
    assert bool(torch.isfinite(made.log_prob(made.best())).all())


@over(CASES)
def test_a_fresh_network_believes_in_the_identity(family, primitive):
    raw = family.initial(primitive)
    assert raw.shape == (family.outputs(primitive),)
    best = family(primitive, raw.unsqueeze(0)).best()
    if isinstance(primitive, OneSidedScale):
        torch.testing.assert_close(best, primitive.squash(torch.tensor([primitive.start])))
    else:
        assert bool((best == primitive.identity).all())


@over(CASES)
def test_values_of_one_image_do_not_depend_on_the_others(family, primitive):
    made, alone = belief(family, primitive), family(primitive, generic_raw(family, primitive)[1:])
    values = made.sample(3, generator())
    torch.testing.assert_close(made.log_prob(values)[1:], alone.log_prob(values[1:]))
    torch.testing.assert_close(made.log_prob(values)[:, 0], made.log_prob(values[:, 0]))
    for quantity in ("best", "entropy", "spread", "kl"):
        torch.testing.assert_close(getattr(made, quantity)()[1:], getattr(alone, quantity)())


@over(UNCERTAIN)
def test_the_cells_of_the_entropy_share_all_of_the_mass(family, primitive):
    masses = belief(family, primitive).cell_masses()
    full = isinstance(primitive, Rotation) and primitive.full_circle
    count = 2 if isinstance(primitive, Reflection) else 36 if full else 37
    assert masses.shape == (2, primitive.components, count)
    torch.testing.assert_close(masses.sum(-1), torch.ones(2, primitive.components, dtype=torch.float64))


@over(CASES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_reduced_precision_is_lifted(family, primitive, dtype):
    made = family(primitive, generic_raw(family, primitive).to(dtype))
    assert made.best().dtype == made.entropy().dtype == made.sample(2, generator()).dtype == torch.float32


@over(CASES)
def test_a_wrong_number_of_outputs_is_refused_with_a_sentence(family, primitive):
    count = family.outputs(primitive)
    sentence = f"{family.__name__} posterior of {primitive.name} is made from {count} numbers, got {count + 1}"
    with pytest.raises(ValueError, match=sentence):
        family(primitive, torch.zeros(2, count + 1))


@pytest.mark.parametrize("name", POSTERIORS)
def test_a_family_is_found_by_its_name(name):
    assert family_of(name, Rotation()) is POSTERIORS[name]
    assert family_of(name, Scale()) is (Gaussian if name == "circular" else POSTERIORS[name])


def test_an_unknown_family_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="unknown posterior 'beta'; there are circular, gaussian"):
        family_of("beta", Rotation())


@pytest.mark.parametrize("raw_width", [-50.0, -120.0, -1e4])
def test_students_numbers_stay_numbers_however_sure_a_network_is(raw_width):
    raw = torch.tensor([[0.3, raw_width]], requires_grad=True)
    belief = Student(Scale(), raw)
    numbers = (belief.kl(), belief.log_prob(torch.tensor([1.0])), belief.spread(), belief.entropy())
    (gradient,) = torch.autograd.grad(torch.stack([number.sum() for number in numbers]).sum(), raw)
    assert all(bool(number.isfinite().all()) for number in numbers) and bool(gradient.isfinite().all())
