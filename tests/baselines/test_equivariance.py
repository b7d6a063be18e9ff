"""The group and the steerable network turn their answer with their input; exactly so on the grid's own rotations."""

import math

import pytest
import torch

from tokenstn.baselines.circular_harmonics import HarmonicConv, HarmonicNetwork
from tokenstn.baselines.group_convolution import GroupConv, GroupNetwork, turned_filters
from tokenstn.geometry import Pose, hide_corners, warp, wrap_angle

from ..models.classifiers import shake
from .makers import make_rival, noise_images


def clockwise(images: torch.Tensor, quarters: int = 1) -> torch.Tensor:
    return images.rot90(-quarters, (-2, -1))


@pytest.mark.parametrize("order", [4, 8, 12])
@pytest.mark.parametrize("quarters", [1, 2, 3])
@torch.no_grad()
def test_a_quarter_turn_shifts_the_group_networks_answer(order, quarters):
    network, images = shake(GroupNetwork(3, order, 5)).eval(), noise_images()
    answer, turned = network(images), network(clockwise(images, quarters))
    torch.testing.assert_close(turned, answer.roll(quarters * order // 4, 1), atol=1e-5, rtol=1e-5)
    assert answer.std(1).min() > 1e-4


@pytest.mark.parametrize("lifts", [True, False])
@torch.no_grad()
def test_a_quarter_turn_turns_and_shifts_the_maps(lifts):
    maps = torch.randn(2, 3, 1 if lifts else 8, 12, 12)
    layer = GroupConv(3, 4, 8, lifts).eval()
    turned = layer(clockwise(maps) if lifts else clockwise(maps).roll(2, 2))
    torch.testing.assert_close(turned, clockwise(layer(maps)).roll(2, 2), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_an_eighth_of_a_turn_of_a_filter_is_nearly_one_element():
    y, x = torch.meshgrid(*2 * (torch.arange(5) - 2.0,), indexing="ij")
    ramp = (x * torch.exp(-(x.square() + y.square()) / 3))[None, None, None]
    eighth = (x + y) / math.sqrt(2) * torch.exp(-(x.square() + y.square()) / 3)  # clockwise, y pointing down
    turned = turned_filters(ramp, 8)[1, 0, 0, 0]
    assert torch.cosine_similarity(turned.flatten(), eighth.flatten(), 0) > 0.99


@pytest.mark.parametrize("quarters", [1, 2, 3])
@torch.no_grad()
def test_a_quarter_turn_turns_the_steerable_networks_answer(quarters):
    network, images = shake(HarmonicNetwork(3, 5)).eval(), noise_images()
    answer, turned = network(images), network(clockwise(images, quarters))
    angle = torch.tensor(quarters * math.pi / 2)
    x, y = answer.unbind(-1)
    expected = torch.stack((x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos()), -1)
    torch.testing.assert_close(turned, expected, atol=1e-5, rtol=1e-5)
    assert answer.norm(dim=1).min() > 1e-2


@torch.no_grad()
def test_features_of_order_0_stay_and_those_of_order_1_turn():
    layer, maps = HarmonicConv(3, 4, 1), torch.randn(2, 2, 1, 3, 12, 12)
    before, after = layer(maps), layer(clockwise(maps))
    torch.testing.assert_close(after[:, :, 0], clockwise(before[:, :, 0]), atol=1e-5, rtol=1e-4)
    real, imaginary = clockwise(before[:, :, 1]).unbind(1)
    torch.testing.assert_close(after[:, :, 1], torch.stack((-imaginary, real), 1), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_the_steerable_angle_follows_any_turn_up_to_resampling():
    torch.manual_seed(0)
    network, images = HarmonicNetwork(1, 8), hide_corners(noise_images(16, 1))
    for degrees in (20, 45, 130):
        angle = torch.tensor(math.radians(degrees))
        turned = hide_corners(warp(images, Pose.of(rotation=angle).matrix, inverse=True))
        before, after = network(images), network(turned)
        change = torch.atan2(after[:, 1], after[:, 0]) - torch.atan2(before[:, 1], before[:, 0])
        assert wrap_angle(change - angle).abs().median() < math.radians(8)


@pytest.mark.parametrize("name", ["canprior-g", "canprior-s"])
@pytest.mark.parametrize("side", [28, 32, 96])
@torch.no_grad()
def test_the_found_pose_turns_with_the_image_and_the_rectified_image_does_not(name, side):
    model, images = make_rival(name), noise_images(height=side, width=side)
    p, turned = model(images), model(clockwise(images))
    change = wrap_angle(turned.pose.rotation - p.pose.rotation - math.pi / 2)
    torch.testing.assert_close(change, torch.zeros(4), atol=1e-4, rtol=0)
    torch.testing.assert_close(turned.rectified, p.rectified, atol=2e-3, rtol=0)
    torch.testing.assert_close(turned.probabilities, p.probabilities, atol=1e-3, rtol=0)


def test_the_prior_is_content_with_upright_answers_only():
    group, steerable = make_rival("canprior-g"), make_rival("canprior-s")
    upright, half_turn = torch.tensor([[9.0, 0, 0, 0, 0, 0, 0, 0]]), torch.tensor([[0.0, 0, 0, 0, 9, 0, 0, 0]])
    assert group.prior(upright) < 0.01 < 8 < group.prior(half_turn)
    angle = torch.tensor(0.7)
    matrix = Pose.of(rotation=angle).matrix[:2, :2]
    said = steerable.prior(3 * torch.stack((angle.cos(), angle.sin()))[None])
    torch.testing.assert_close(said, (matrix - torch.eye(2)).square().mean())
    images = noise_images()
    assert "prior" not in group.losses(images, torch.arange(4))
    weighted = group.losses(images, torch.arange(4), upright=images)["prior"]
    torch.testing.assert_close(weighted, 100 * group.prior(group.response(images)))


def test_the_choice_of_an_angle_passes_the_gradient_of_the_softmax():
    model, images = make_rival("canprior-g"), noise_images()
    matrix = model.localize(images).best
    torch.testing.assert_close(matrix[:, 0, 0].square() + matrix[:, 1, 0].square(), torch.ones(4))
    matrix[:, 1, 0].sum().backward()
    assert model.localizer.last.grad.abs().max() > 0
