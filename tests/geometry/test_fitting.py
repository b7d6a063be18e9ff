"""Poses on their way from the network's input to the photo."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tokenstn.geometry import Pose, compose, decompose, fit_matrix, invert, pose_in_photo, seen_rotation
from tokenstn.geometry.fitting import SMALLEST_SHARE, fit_layout

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


def by_hand(photo, size, resized, origin, box, x, y):
    """Where a pixel of the photo comes to lie in the network's frame, step by step."""
    left, top, right, bottom = box or (0, 0, photo[1], photo[0])
    column = (x - left) * resized[1] / (right - left) - origin[1]
    row = (y - top) * resized[0] / (bottom - top) - origin[0]
    unit = min(size) / 2
    return (column - size[1] / 2) / unit, (row - size[0] / 2) / unit


@pytest.mark.parametrize("box", [None, (10, 5, 70, 85), (0, 0, 31, 100)])
@pytest.mark.parametrize(
    ("resize", "share"), [("crop", 1.0), ("crop", 0.8), ("pad", 1.0), ("squash", 1.0), ("crop", 0.31)]
)
@pytest.mark.parametrize(("photo", "size"), [((100, 150), (24, 40)), ((120, 90), (31, 31)), ((100, 100), (40, 15))])
def test_a_pixel_of_the_photo_lands_where_cutting_resizing_and_cropping_put_it(photo, size, resize, share, box):
    fit = fit_matrix(photo, size, resize, share, box)
    part = photo if box is None else (box[3] - box[1], box[2] - box[0])
    resized, origin = fit_layout(part, size, resize, share)
    unit = min(photo) / 2
    for x, y in ((0, 0), (33.5, 71), (photo[1], photo[0]), (12, 99)):
        place = torch.tensor([(x - photo[1] / 2) / unit, (y - photo[0] / 2) / unit, 1.0], dtype=torch.float64)
        assert (fit @ place)[:2].tolist() == pytest.approx(by_hand(photo, size, resized, origin, box, x, y))


@pytest.mark.parametrize(
    ("photo", "size", "resize", "share", "resized", "origin"),
    [
        ((100, 200), (50, 50), "crop", 1.0, (50, 100), (0, 25)),
        ((100, 200), (50, 50), "crop", 0.5, (100, 200), (25, 75)),
        ((100, 200), (50, 50), "pad", 1.0, (25, 50), (-13, 0)),
        ((100, 200), (51, 40), "squash", 0.5, (51, 40), (0, 0)),
        ((200, 101), (50, 50), "crop", 1.0, (99, 50), (24, 0)),
        ((1, 1000), (10, 10), "pad", 1.0, (1, 10), (-5, 0)),
        ((7, 7), (1, 1), "crop", 1.0, (1, 1), (0, 0)),
        ((1, 1), (3, 2), "crop", 1.0, (3, 3), (0, 0)),
        ((100, 105), (50, 50), "crop", 1.0, (50, 52), (0, 1)),
        ((105, 100), (50, 50), "crop", 1.0, (52, 50), (1, 0)),
        ((100, 300), (30, 60), "crop", 1.0, (30, 90), (0, 15)),
        ((100, 100), (10, 10), "crop", SMALLEST_SHARE, (200, 200), (95, 95)),
    ],
)
def test_the_layout_of_known_sizes(photo, size, resize, share, resized, origin):
    found = fit_layout(photo, size, resize, share)
    assert found == (resized, origin)
    assert all(isinstance(number, int) for part in found for number in part)


@pytest.mark.parametrize(
    ("photo", "size", "share"),
    [((0, 5), (4, 4), 1.0), ((5, 5), (4, 0), 1.0), ((5, 5), (4, 4, 4), 1.0), ((5, 5), (4, 4), 0.0),
     ((5, 5), (4, 4), 1.01), ((5, 5), (4, 4), 0.01), ((5, 5), (0, 0), 1.0), ((0, 0), (4, 4), 1.0)],
)  # fmt: skip
def test_sizes_and_shares_that_are_none_are_refused(photo, size, share):
    with pytest.raises(ValueError, match=r"at least 1 each|crop_share"):
        fit_layout(photo, size, "crop", share)


def test_one_pose_in_many_photos():
    fits = torch.stack([fit_matrix((100, width), (32, 32)) for width in (100, 130, 177)])
    pose = pose_of(0.4, 0.9, 0.2, -0.1)
    found = pose_in_photo(pose, fits)
    assert found.shape == (3, 3, 3)
    for one, fit in zip(found, fits, strict=True):
        torch.testing.assert_close(one, pose_in_photo(pose, fit))
