"""Student's t with two degrees of freedom: a Gamma hyperprior on the precision."""

import pytest
import torch
from scipy import stats
from torch.distributions import Gamma, StudentT, kl_divergence

from tokenstn.geometry import OneSidedScale, Reflection, Rotation, Scale, Shear, Translation
from tokenstn.posteriors import Gaussian, Student

SMOOTH = [Rotation(), Scale(), OneSidedScale(), Shear(), Translation()]
smooth = pytest.mark.parametrize("primitive", SMOOTH, ids=repr)


def belief(primitive, centre=0.2, width=(-3.0, -1.0, 0.5)):
    width = torch.as_tensor(width, dtype=torch.float64).reshape(-1, 1).expand(-1, primitive.components)
    return Student(primitive, torch.cat((torch.full_like(width, centre), width), -1))


def test_the_closed_forms_are_those_of_two_degrees_of_freedom():
    z = torch.cat((-torch.logspace(6, -3, 40), torch.logspace(-3, 6, 40))).double()
    reference = stats.t(df=2)
    torch.testing.assert_close(Student.standard_cdf(z), torch.from_numpy(reference.cdf(z.numpy())), rtol=1e-9, atol=0)
    torch.testing.assert_close(Student.standard_log_density(z), torch.from_numpy(reference.logpdf(z.numpy())))
    chance = torch.linspace(0.001, 0.999, 99, dtype=torch.float64)
    torch.testing.assert_close(Student.standard_quantile(chance), torch.from_numpy(reference.ppf(chance.numpy())))


def test_infinite_numbers_have_a_probability():
    assert Student.standard_cdf(torch.tensor([-torch.inf, 0.0, torch.inf])).tolist() == [0.0, 0.5, 1.0]


@smooth
def test_the_density_is_that_of_students_t_with_the_variables_changed(primitive):
    made = belief(primitive)
    u = torch.linspace(-1, 1.2, 15, dtype=torch.float64).reshape(3, 5).requires_grad_()
    value = primitive.squash(u)
    (slope,) = torch.autograd.grad(value.sum(), u)
    b = torch.nn.functional.softplus(made.raw_width[:, :1])
    expected = StudentT(2.0, 0.2, b.sqrt()).log_prob(u) - slope.abs().log()
    if primitive.components == 2:
        value, expected = torch.stack((value, value), -1), 2 * expected
    torch.testing.assert_close(made.log_prob(value), expected)


@smooth
def test_the_divergence_is_that_of_the_hyperprior(primitive):
    made = belief(primitive)
    b = torch.nn.functional.softplus(made.raw_width)
    one = torch.ones_like(b)
    torch.testing.assert_close(made.kl(), kl_divergence(Gamma(one, b), Gamma(one, one)).sum(-1))


@smooth
def test_the_divergence_does_not_pull_on_the_mean(primitive):
    raw = belief(primitive, width=(-3.0, -1.0)).raw.clone().requires_grad_()
    (slope,) = torch.autograd.grad(Student(primitive, raw).kl().sum(), raw)
    assert bool((slope[:, : primitive.components] == 0).all() and (slope[:, primitive.components :] < 0).all())


def test_a_reflection_has_no_divergence():
    assert belief(Reflection()).kl().tolist() == [0.0, 0.0, 0.0]


def test_the_probability_of_a_reflection_is_the_mass_on_its_side():
    made = belief(Reflection(), centre=0.3)
    chance = stats.t(df=2, loc=0.3, scale=made.width.squeeze(-1).numpy()).sf(0)
    torch.testing.assert_close(made.candidates(2).masses[:, 0], torch.from_numpy(chance))


@smooth
def test_a_wider_belief_has_more_entropy_and_more_spread(primitive):
    made = belief(primitive, centre=0.0, width=(-9.0, -6.0, -4.0, -2.0))
    assert bool((made.entropy().diff() > 0).all() and (made.spread().diff() > 0).all())


@smooth
def test_a_fresh_student_is_about_as_wide_as_a_fresh_gaussian(primitive):
    widths = [family(primitive, family.initial(primitive)[None]).width for family in (Student, Gaussian)]
    torch.testing.assert_close(*widths, rtol=0.02, atol=0)


def test_its_tails_are_heavier_than_the_gaussians():
    far = Shear().squash(torch.tensor([[1.5, -1.5]]))
    heavy, light = (family(Shear(), family.initial(Shear())[None]).log_prob(far) for family in (Student, Gaussian))
    assert bool((heavy > light).all())
