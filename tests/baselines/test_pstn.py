"""P-STN's posteriors: their KL, their draws, and what is reported of them."""

import math

import pytest
import torch
from torch.distributions import Gamma, Normal, StudentT, kl_divergence
from torch.nn import functional as F

from tokenstn.baselines.free import FreeRotation, FreeScale
from tokenstn.baselines.pstn import GammaPosterior, GaussPosterior
from tokenstn.geometry import wrap_angle

from .makers import make_rival, noise_images

NAMES = {"pstn-gamma": GammaPosterior, "pstn-gauss": GaussPosterior}


def test_the_kl_is_that_of_two_gammas():
    raw = torch.randn(50, 2, dtype=torch.float64) * 3
    b = F.softplus(raw[:, 1])
    one = torch.ones_like(b)
    torch.testing.assert_close(
        GammaPosterior(FreeRotation(), raw).kl(), kl_divergence(Gamma(one, b), Gamma(one, one))
    )  # fmt: skip


def test_the_kl_is_that_of_two_gaussians_with_one_mean():
    raw = torch.randn(50, 2, dtype=torch.float64) * 3
    deviation = F.softplus(raw[:, 1]).sqrt()
    expected = kl_divergence(Normal(raw[:, 0], deviation), Normal(raw[:, 0], 1.0))
    torch.testing.assert_close(GaussPosterior(FreeScale(), raw).kl(), expected)


def test_the_density_of_the_gamma_is_students_t_with_two_degrees():
    raw = torch.tensor([[0.3, -2.0]], dtype=torch.float64)
    values = torch.linspace(-2, 2, 9, dtype=torch.float64)[None]
    student = StudentT(2.0, loc=torch.tensor(0.3).double(), scale=F.softplus(torch.tensor(-2.0)).double().sqrt())
    torch.testing.assert_close(GammaPosterior(FreeRotation(), raw).log_prob(values), student.log_prob(values))
    scaled = GammaPosterior(FreeScale(), raw).log_prob(1 + values)
    torch.testing.assert_close(scaled, student.log_prob(values))


@pytest.mark.parametrize("family", NAMES.values())
def test_the_kl_leaves_the_mean_alone(family):
    raw = torch.zeros(3, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad(family(FreeRotation(), raw).kl().sum(), raw)
    assert gradient[:, 0].eq(0).all() and gradient[:, 1].ne(0).all()


@pytest.mark.parametrize("family", NAMES.values())
@pytest.mark.parametrize("centre", [0.0, 3.1, 40.0])
def test_the_masses_of_a_free_angle_go_around_the_circle(family, centre):
    belief = family(FreeRotation(), torch.tensor([[centre, -1.0]]))
    masses = belief.cell_masses()[0, 0]
    drawn = wrap_angle(belief.sample(20_000, torch.Generator().manual_seed(0))[0])
    cells = torch.remainder((drawn / (2 * math.pi / 36)).round().long() + 18, 36)
    counted = torch.bincount(cells, minlength=36) / len(drawn)
    assert (masses - counted).abs().max() < 0.01
    torch.testing.assert_close(masses.sum(), torch.ones(()))


@pytest.mark.parametrize("family", NAMES.values())
def test_a_wider_belief_has_more_entropy_and_spread(family):
    for primitive in (FreeRotation(), FreeScale()):
        belief = family(primitive, torch.tensor([[0.0, -8.0], [0.0, -4.0], [0.0, 0.0]]))
        assert (belief.entropy().diff() > 0).all() and (belief.spread().diff() > 0).all()
        assert torch.isfinite(belief.spread()).all()


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_testing_draws_ten_poses_around_the_reported_one(name):
    model, images = make_rival(name), noise_images()
    p = model(images)
    assert p.views.matrices.shape == (4, 10, 3, 3)
    assert p.entropy.keys() == p.spread.keys() == {"rotation", "scale", "shear", "translation"}
    assert model(images, views=1).views.matrices[:, 0].allclose(p.pose.matrix, atol=1e-5)
    one = model(images, views=1, sampling="random", generator=torch.Generator().manual_seed(0))
    assert not one.views.matrices[:, 0].allclose(p.pose.matrix, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_training_draws_one_pose_from_the_given_noise(name):
    model, images, labels = make_rival(name), noise_images(), torch.arange(4)

    def loss(seed: int) -> torch.Tensor:
        return model.losses(images, labels, noise=torch.Generator().manual_seed(seed))["classification"]

    assert loss(0).equal(loss(0)) and not loss(0).equal(loss(1))
    half = model.losses(images, labels, noise=lambda shape: torch.full(shape, 0.5))["classification"]
    at_mean = F.nll_loss(model(images, views=1).probabilities.log(), labels)
    torch.testing.assert_close(half, at_mean, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_kl_term_is_weighted_and_summed_over_primitives(name):
    images, labels = noise_images(), torch.arange(4)
    model = make_rival(name, kl_weight=0.5)
    by_hand = sum(posterior.kl().mean() for posterior in model.posteriors(images).values())
    torch.testing.assert_close(model.losses(images, labels)["kl"], 0.5 * by_hand)
