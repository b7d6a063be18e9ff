"""Poses on their way from the network's input to the photo."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tokenstn.geometry import Pose, compose, decompose, fit_matrix, invert, pose_in_photo, seen_rotation
from tokenstn.geometry.fitting import fit_layout

sides = st.integers(20, 4000)
angles = st.floats(-3.1, 3.1)


def pose_of(angle: float, scale: float, x: float, y: float) -> torch.Tensor:
    number = lambda value: torch.tensor(value, dtype=torch.float64)  # noqa: E731
    return compose(Pose.of(rotation=number(angle), scale=number(scale), translation=number([x, y])))


@given(sides, sides, angles, st.floats(0.5, 2), st.floats(-1, 1), st.floats(-1, 1), st.sampled_from(["crop", "pad"]))
def test_it_is_the_conjugated_pose_but_for_the_rounding_of_sizes(height, width, angle, scale, x, y, resize):
    """Anywhere in the network's view the two differ by less than two of its pixels, which sizes were rounded by."""
    photo, network = (height, width), (64, 64)
    if max(photo) > 8 * min(photo):
        photo = (min(photo), 8 * min(photo))
    fit, pose = fit_matrix(photo, network, resize), pose_of(angle, scale, x, y)
    exact = invert(fit) @ pose @ fit
    corners = torch.tensor([[-1.0, -1, 1], [1, -1, 1], [-1, 1, 1], [1, 1, 1]], dtype=torch.float64) @ invert(fit).T
    apart = corners @ (pose_in_photo(pose, fit) - exact).T
    pixels = (apart[:, :2] @ fit[:2, :2].T).abs() * 32
    assert pixels.max() <= 2 * scale * 64 / min(fit_layout(photo, network, resize, 1.0)[0])


@given(sides, sides, angles, st.sampled_from(["crop", "pad", "squash"]))
def test_a_turn_stays_a_turn_and_the_centre_goes_where_it_goes(height, width, angle, resize):
    fit, pose = fit_matrix((height, width), (64, 48), resize), pose_of(angle, 0.9, 0.2, -0.3)
    found = decompose(pose_in_photo(pose, fit))
    torch.testing.assert_close(found.rotation, decompose(pose).rotation)
    assert found.scale.item() == pytest.approx(0.9) and found.stretch.item() == pytest.approx(1.0)
    start = invert(fit)[:, 2]
    torch.testing.assert_close(fit @ pose_in_photo(pose, fit) @ start, pose[:, 2])


def test_where_no_size_is_rounded_it_is_the_conjugated_pose():
    fit, pose = fit_matrix((160, 320), (32, 64)), pose_of(1.0, 0.7, 0.3, 0.1)
    torch.testing.assert_close(pose_in_photo(pose, fit), invert(fit) @ pose @ fit)
    many = pose_in_photo(pose.expand(5, 3, 3), fit)
    assert many.shape == (5, 3, 3) and torch.equal(many[3], pose_in_photo(pose, fit))


@given(angles)
def test_a_mirror_after_a_turn_is_said_with_that_turn(angle):
    mirror = torch.diag(torch.tensor([-1.0, 1, 1], dtype=torch.float64))
    pose = decompose(mirror @ pose_of(angle, 1.0, 0.0, 0.0))
    assert pose.reflection == -1 and math.isclose(seen_rotation(pose).item(), angle, abs_tol=1e-9)
    assert math.isclose(seen_rotation(decompose(pose_of(angle, 1.0, 0.0, 0.0))).item(), angle, abs_tol=1e-9)
