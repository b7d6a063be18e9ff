"""Axes that are one long, and dtypes on the way: what goes in as a list of one comes out as a list of one."""

import math

import pytest
import torch
from torch.nn import functional as F

from tokenstn.geometry import Orbit, Pose, frame_to_pixels, rotation_group, warp, warp_boxes, warp_mask

TURNED = Pose.of(rotation=0.3, translation=(0.1, -0.2)).matrix


def test_one_view_keeps_its_axis():
    images = torch.rand(2, 3, 8, 8)
    one = warp(images, TURNED.expand(2, 1, 3, 3))
    assert one.shape == (2, 1, 3, 8, 8) and torch.equal(one[:, 0], warp(images, TURNED))


@pytest.mark.parametrize("shape", [(2, 1, 8, 6), (2, 3, 8, 6), (2, 8, 6)])
def test_a_mask_keeps_its_channels(shape):
    mask = torch.randint(0, 5, shape)
    moved = warp_mask(mask, TURNED)
    assert moved.shape == shape and moved.dtype == mask.dtype


def test_boxes_of_several_images_move_with_their_own_pose():
    matrices = torch.stack([TURNED, Pose.of(scale=0.5).matrix, torch.eye(3)])
    boxes = torch.tensor([[-0.5, -0.3, 0.2, 0.4], [0.0, 0.1, 0.3, 0.9]]).expand(3, 2, 4)
    moved = warp_boxes(boxes, matrices)
    assert moved.shape == (3, 2, 4)
    for found, matrix in zip(moved, matrices, strict=True):
        torch.testing.assert_close(found, warp_boxes(boxes[0], matrix))
    torch.testing.assert_close(moved[1], 2 * boxes[0])


def test_boxes_go_back_as_points_do():
    boxes, size, output = torch.tensor([[2.0, 3.0, 5.0, 9.0]]), (12, 20), (30, 40)
    matrix = Pose.of(scale=0.5, translation=(0.2, -0.1)).matrix  # boxes stay upright, so that nothing grows
    moved = warp_boxes(boxes, matrix, size=size, output_size=output)
    torch.testing.assert_close(warp_boxes(moved, matrix, inverse=True, size=size, output_size=output), boxes)
    assert not torch.allclose(warp_boxes(moved, matrix, size=size, output_size=output), boxes)


def test_whole_pixels_of_an_odd_image_have_halves_as_their_middle():
    assert frame_to_pixels(torch.tensor([[0, 0], [2, 4]]), (3, 5)).tolist() == [[2.5, 1.5], [5.5, 7.5]]


def test_half_of_a_true_pixel_is_true():
    """Bilinear between true and false, shifted by half a pixel: ½ counts."""
    images = torch.tensor([[[[True, False, False, False]] * 4]])
    moved = warp(images, Pose.of(translation=(0.25, 0.0)).matrix, padding="border")
    assert moved[0, 0, 0].tolist() == [True, False, False, False]
    assert warp(images, Pose.of(translation=(-0.25, 0.0)).matrix, padding="border")[0, 0, 0].tolist() == [
        True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("images", "matrix", "expected"),
    [
        (torch.float32, torch.float32, torch.float32),
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.uint8, torch.float32, torch.float32),
        (torch.float64, torch.float32, torch.float64),
        (torch.int32, torch.float32, torch.float64),
        (torch.float32, torch.float64, torch.float64),
    ],
)
def test_sampling_is_as_fine_as_needed_and_no_finer(monkeypatch, images, matrix, expected):
    """float64 takes twice the time: it is for what float32 does not hold."""
    seen = []
    real = F.grid_sample

    def watch(values, grid, **options):
        seen.append((values.dtype, grid.dtype))
        return real(values, grid, **options)

    monkeypatch.setattr(F, "grid_sample", watch)
    warp(torch.ones(1, 1, 4, 4).to(images), TURNED.to(matrix))
    assert seen == [(expected, expected)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_an_orbit_is_sampled_as_finely_as_its_images(monkeypatch, dtype):
    seen = []
    real = F.grid_sample

    def watch(values, grid, **options):
        seen.append(grid.dtype)
        return real(values, grid, **options)

    monkeypatch.setattr(F, "grid_sample", watch)
    orbit = Orbit(torch.rand(1, 1, 4, 4).to(dtype), rotation_group(4))
    assert orbit[1].dtype == dtype and seen == [torch.float64 if dtype == torch.float64 else torch.float32]


def test_an_orbit_of_float64_is_turned_by_the_whole_angle():
    images = torch.rand(1, 1, 9, 9, dtype=torch.float64)
    orbit = Orbit(images, rotation_group(7))
    exact = warp(images, Pose.of(rotation=torch.tensor(-2 * math.pi / 7, dtype=torch.float64)).matrix)
    torch.testing.assert_close(orbit[1], exact, rtol=0, atol=1e-13)


def test_a_pixel_is_read_at_its_centre_in_frames_of_any_shape():
    """Shifted by exactly one pixel, an image is itself one pixel on: no constant of the grid is a little off."""
    for height, width in ((5, 5), (4, 9), (10, 3)):
        images = torch.arange(height * width, dtype=torch.float64).reshape(1, 1, height, width)
        step = 2 / min(height, width)
        right = warp(images, Pose.of(translation=torch.tensor([step, 0.0], dtype=torch.float64)).matrix)
        down = warp(images, Pose.of(translation=torch.tensor([0.0, step], dtype=torch.float64)).matrix)
        torch.testing.assert_close(right[..., :-1], images[..., 1:])
        torch.testing.assert_close(down[..., :-1, :], images[..., 1:, :])
    assert math.isclose(step, 2 / 3)
