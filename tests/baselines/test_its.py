"""The search finds the pose at which the classifier is most confident."""

import math

import pytest
import torch
from torch import Tensor, nn

from tokenstn.baselines.its import InverseTransformationSearch, curvature, search_points
from tokenstn.geometry import Pose, Rotation, Scale, warp, wrap_angle


class Matcher(nn.Module):
    """Logits are the products with templates, so that confidence is highest where an image lies as its template."""

    def __init__(self) -> None:
        super().__init__()
        self.templates = nn.Parameter(10 * templates())

    def forward(self, images: Tensor) -> Tensor:
        return (images.flatten(1)[:, None] * self.templates.flatten(1)).mean(-1) * 20


def templates() -> Tensor:
    """A wedge that points to the right, and one that points down: ``(2, 1, 32, 32)``."""
    y, x = torch.meshgrid(*2 * ((torch.arange(32) - 15.5) / 16,), indexing="ij")
    wedge = torch.exp(-((x - 0.4).square() / 0.08 + y.square() / 0.03))
    return torch.stack((wedge, wedge.T)).unsqueeze(1)


def searcher(**options) -> InverseTransformationSearch:
    return InverseTransformationSearch(Matcher(), **options).eval()


@pytest.mark.parametrize("degrees", [0, 45, 180, -135])
@torch.no_grad()
def test_it_finds_a_planted_rotation(degrees):
    # one template alone: with both, a quarter turn of one is as good as the other upright
    model, image = searcher(primitives=("rotation",)), templates()[:1]
    model.classifier.templates[1].zero_()
    angle = torch.tensor(math.radians(degrees))
    p = model(warp(image, Pose.of(rotation=angle).matrix, inverse=True))
    assert wrap_angle(p.pose.rotation - angle).abs() < 1e-4
    torch.testing.assert_close(p.rectified, image, atol=0.1, rtol=0)


@torch.no_grad()
def test_it_finds_rotation_and_scale_together():
    model, image = searcher(primitives=(Rotation(), Scale(bound=0.5)), points=16), templates()[:1]
    model.classifier.templates[1].zero_()
    pose = Pose.of(rotation=torch.tensor(math.pi / 2), scale=torch.tensor(0.6))
    found = model(warp(image, pose.matrix, inverse=True)).pose
    assert wrap_angle(found.rotation - math.pi / 2).abs() < 1e-4 and 0.4 < found.scale < 0.95


@torch.no_grad()
def test_hypotheses_are_the_views_and_the_best_comes_first():
    model, images = searcher(), templates()
    p = model(images, views=9)
    assert p.views.matrices.shape == (2, 3, 3, 3) and model(images).views.matrices.shape == (2, 1, 3, 3)
    torch.testing.assert_close(p.views.matrices[:, 0], p.pose.matrix)
    angles = torch.atan2(p.views.matrices[..., 1, 0], p.views.matrices[..., 0, 0])
    assert all(len(set(row.tolist())) == 3 for row in angles.round(decimals=3))  # three branches, not one thrice


def test_the_points_of_a_circle_do_not_meet_at_its_ends():
    assert len(set(wrap_angle(search_points(Rotation(), 8)).round(decimals=4).tolist())) == 8


@pytest.mark.parametrize("place", range(8))
def test_on_a_circle_every_place_is_alike(place):
    values = torch.randn(3, 8)
    torch.testing.assert_close(curvature(values.roll(place, 1), True), curvature(values, True).roll(place, 1))


def test_the_score_is_minus_the_second_difference_of_smoothed_values():
    values = torch.randn(50, dtype=torch.float64).cumsum(0)
    scipy = pytest.importorskip("scipy.ndimage")
    smooth = torch.from_numpy(scipy.gaussian_filter1d(values.numpy(), 2.0, mode="wrap"))
    expected = 2 * smooth - smooth.roll(1) - smooth.roll(-1)
    torch.testing.assert_close(curvature(values, circular=True), expected)


def test_a_straight_line_has_no_score_inside():
    assert curvature(torch.linspace(0, 5, 40, dtype=torch.float64), circular=False)[12:-12].abs().max() < 1e-9
