"""In polar images a rotation is a shift along the angle, in log-polar ones a scale is a shift along the radius."""

import math

import pytest
import torch

from tokenstn.baselines.polar import OriginNet, Polar, polar_images
from tokenstn.geometry import Pose, warp

from ..models.classifiers import shake
from .makers import make_rival, noise_images


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_quarter_turn_is_exactly_a_shift(log, quarters):
    images, centre = noise_images(), torch.zeros(4, 2)
    polar = polar_images(images, centre, log)
    turned = polar_images(images.rot90(-quarters, (-2, -1)), centre, log)
    torch.testing.assert_close(turned, polar.roll(quarters * 8, 2), atol=1e-4, rtol=1e-4)


def test_any_other_turn_is_nearly_a_shift():
    images, centre = noise_images(2, 1, 64, 64), torch.zeros(2, 2)
    angle = torch.tensor(2 * math.pi * 5 / 64)
    turned = warp(images, Pose.of(rotation=angle).matrix, inverse=True)
    inside = slice(0, 40)  # radii within the inscribed circle
    shifted, wanted = polar_images(turned, centre)[..., inside], polar_images(images, centre).roll(5, 2)[..., inside]
    assert (shifted - wanted).abs().mean() < 0.02 * wanted.abs().mean() + 0.01


def test_a_zoom_is_a_shift_of_logarithmic_radii():
    images, centre = noise_images(2, 1, 64, 64), torch.zeros(2, 2)
    step = (math.hypot(64, 64) / 2) ** (1 / 63)  # from one radius to the next
    zoomed = warp(images, Pose.of(scale=torch.tensor(step**3)).matrix, inverse=True)
    shifted, wanted = polar_images(zoomed, centre, log=True), polar_images(images, centre, log=True)
    inner = slice(20, 50)
    assert (shifted[..., inner] - wanted[..., 17:47]).abs().mean() < 0.05 * wanted.abs().mean()


def test_the_first_row_is_the_ray_to_the_right_of_the_origin():
    ramp = torch.linspace(-1, 1, 32).expand(1, 1, 32, 32)  # grows to the right
    polar = polar_images(ramp, torch.zeros(1, 2))[0, 0]
    assert polar[0, 8] > 0.3 and polar[16, 8] < -0.3 and polar[8, 8].abs() < 0.05


def test_moving_the_origin_moves_what_is_looked_at():
    images = torch.zeros(1, 1, 32, 32)
    images[..., 8:10, 20:22] = 1.0  # around (0.3125, −0.4375) in the isotropic frame
    polar = polar_images(images, torch.tensor([[0.3125, -0.4375]]))
    assert polar[..., :1].mean() > 0.3 and polar[..., 8:16].max() < 1e-3


@torch.no_grad()
def test_a_fresh_origin_is_the_centre_and_a_hot_spot_draws_it():
    images = noise_images(2, 3, 24, 40)
    net = OriginNet(3).eval()
    torch.testing.assert_close(net(images), torch.zeros(2, 2), atol=1e-6, rtol=0)
    assert shake(net, 3.0)(images).abs().max() > 1e-4


@torch.no_grad()
def test_the_features_go_around_the_circle():
    reader = make_rival("polar").localizer.reader
    polar = torch.randn(1, 3, 32, 32)
    layer = reader.layers[0]
    torch.testing.assert_close(layer(polar.roll(5, 2)), layer(polar).roll(5, 2), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_logpolar_is_polar_with_other_radii():
    assert isinstance(make_rival("logpolar"), Polar)
    assert make_rival("logpolar").localizer.log and not make_rival("polar").localizer.log
