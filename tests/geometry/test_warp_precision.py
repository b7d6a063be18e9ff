"""Warps keep dtypes, survive reduced precision, have exact gradients, take views, and refuse what is no pose."""

import math

import pytest
import torch

from tokenstn.geometry import Pose, invert, warp, warp_boxes, warp_mask, warp_points

EIGHT_BITS, ELEVEN_BITS = 2**-8, 2**-11  # rounding of bf16 and of fp16 relative to 1


def noise(*shape, seed=0, dtype=torch.float32):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def general(dtype=torch.float32):
    rotation = torch.tensor(0.6, dtype=dtype)
    return Pose.of(rotation=rotation, scale=0.8, shear=0.3, translation=(0.15, -0.1), reflection=-1.0).matrix


@pytest.mark.parametrize("size", [(20, 30), (190, 200)])  # the second has more than 32,767 pixels
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize(
    ("dtype", "unit", "error"),
    [
        (torch.float16, 1, 2 * ELEVEN_BITS),
        (torch.bfloat16, 1, 2 * EIGHT_BITS),
        (torch.uint8, 255, 0.5),
        (torch.int16, 255, 0.5),
    ],
)
def test_images_keep_their_dtype_and_stay_close_to_full_precision(size, mode, dtype, unit, error):
    images = (noise(1, 2, *size) * unit).to(dtype)
    exact = warp(images.float(), general(), mode=mode)
    exact = exact.clamp(0, 255) if dtype == torch.uint8 else exact  # bicubic overshoots
    found = warp(images, general(), mode=mode)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), exact, rtol=0, atol=error + 1e-4)


@pytest.mark.parametrize("size", [(20, 30), (190, 200)])
def test_truth_values_stay_truth_values(size):
    images = noise(1, 1, *size) > 0.5
    found = warp(images, general())
    assert found.dtype == torch.bool
    assert torch.equal(found, warp(images.float(), general()) >= 0.5)


@pytest.mark.parametrize("reduced", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("inverse", [False, True])
def test_autocast_changes_nothing(reduced, inverse):
    images = noise(1, 2, 190, 200)
    with torch.autocast("cpu", dtype=reduced):
        under = warp(images, general(), inverse=inverse)
    assert torch.equal(under, warp(images, general(), inverse=inverse))


def test_a_double_matrix_is_used_in_double():
    images = noise(1, 1, 16, 16)
    found = warp(images, general(torch.float64))
    assert found.dtype == torch.float32
    assert torch.equal(found, warp(images.double(), general(torch.float64)).float())


@pytest.mark.parametrize("padding", ["reflection", "zeros", "border"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("inverse", [False, True])
def test_gradients_are_exact(padding, mode, inverse):
    def warped(images, top):
        last = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
        return warp(images, torch.cat((top, last)), (4, 6), inverse=inverse, padding=padding, mode=mode)

    images = noise(1, 1, 5, 7, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(warped, (images, general(torch.float64)[:2].clone().requires_grad_()))


def test_points_and_boxes_have_exact_gradients():
    def moved(points, rotation):
        matrix = Pose.of(rotation=rotation, shear=0.2).matrix
        boxes = torch.cat((points, points + 0.5), -1)
        return warp_points(points, matrix, size=(9, 12)), warp_boxes(boxes, matrix)

    points = noise(3, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(moved, (points, torch.tensor(0.7).double().requires_grad_()))


@pytest.mark.parametrize("inverse", [False, True])
def test_views_are_separate_warps(inverse):
    images = noise(2, 3, 11, 14)
    views = Pose.of(rotation=noise(2, 4, seed=1), shear=noise(2, 4, seed=2), scale=0.9).matrix
    found = warp(images, views, (8, 10), inverse=inverse)
    each = [warp(images, views[:, v], (8, 10), inverse=inverse) for v in range(4)]
    torch.testing.assert_close(found, torch.stack(each, 1))


def test_one_matrix_serves_every_image():
    images = noise(3, 2, 8, 8)
    torch.testing.assert_close(warp(images, general()), warp(images, general().expand(3, 3, 3)))


def shifted(padding):
    """A row of four pixels read two pixels further right: half of the reading lies outside."""
    images = torch.tensor([1.0, 2.0, 3.0, 4.0]).expand(1, 1, 4, 4)
    matrix = Pose.of(translation=torch.tensor([1.0, 0.0])).matrix
    return warp(images, matrix, padding=padding)[0, 0, 0].tolist()


def test_outside_the_image_the_padding_shows():
    assert shifted("zeros") == pytest.approx([3, 4, 0, 0])
    assert shifted("border") == pytest.approx([3, 4, 4, 4])
    assert shifted("reflection") == pytest.approx([3, 4, 4, 3])


def test_masks_are_empty_outside_the_image():
    moved = warp_mask(torch.ones(1, 6, 6, dtype=torch.uint8), Pose.of(scale=torch.tensor(2.0)).matrix)[0]
    assert moved.sum() == 9 and bool(moved.any(0)[[0, -1]].logical_not().all())


@pytest.mark.parametrize("sizes", [((16, 16), (32, 32)), ((16, 24), (32, 48))])
def test_an_output_of_another_size_shows_the_same_content(sizes):
    small, large = sizes
    ramp = torch.linspace(0, 1, small[1]).expand(1, 1, *small)
    found = warp(ramp, torch.eye(3), large)[0, 0, 0]
    centres = (torch.arange(large[1]) + 0.5) / 2 - 0.5
    torch.testing.assert_close(found[1:-1], (centres / (small[1] - 1))[1:-1])


def test_warping_without_validation_looks_at_no_value():
    broken = torch.full((3, 3), math.nan)
    for inverse in (False, True):
        assert warp(noise(1, 1, 4, 4), broken, inverse=inverse, validate=False).shape == (1, 1, 4, 4)


def broken(entry, value):
    matrix = torch.eye(3)
    matrix[entry] = value
    return matrix


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (broken((0, 0), 0.0), "singular"),
        (broken((1, 2), math.nan), "not finite"),
        (broken((0, 1), math.inf), "not finite"),
        (broken((2, 1), 1.0), "last row"),
        (torch.eye(2), "shape"),
        (torch.eye(3).int(), "floating point"),
    ],
)
def test_what_is_no_pose_is_refused_with_a_sentence(matrix, sentence):
    for call in (
        lambda: warp(noise(2, 1, 4, 4), matrix),
        lambda: warp(noise(2, 1, 4, 4), matrix, inverse=True),
        lambda: warp_points(noise(5, 2), matrix),
        lambda: warp_boxes(noise(5, 4), matrix),
        lambda: warp_mask(torch.ones(2, 4, 4), matrix),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: warp(noise(3, 4, 4), torch.eye(3)), r"images have shape \(B, C, H, W\), got \(3, 4, 4\)"),
        (lambda: warp(noise(2, 1, 4, 4), torch.eye(3).expand(3, 3, 3)), "2 images need matrices of shape"),
        (lambda: warp(noise(2, 1, 4, 4), torch.eye(3).expand(2, 1, 1, 3, 3)), "2 images need matrices of shape"),
        (lambda: warp(noise(2, 1, 4, 4).to(torch.complex64), torch.eye(3)), "complex"),
        (lambda: warp_points(noise(5, 3), torch.eye(3)), "points have shape"),
        (lambda: warp_boxes(noise(5, 2), torch.eye(3)), "boxes have shape"),
        (lambda: warp_mask(noise(4, 4), torch.eye(3)), "masks have shape"),
    ],
)
def test_wrong_shapes_are_refused_with_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_the_inverse_direction_is_the_warp_by_the_inverse():
    images = noise(2, 1, 9, 12, dtype=torch.float64)
    matrix = general(torch.float64)
    torch.testing.assert_close(warp(images, matrix, inverse=True), warp(images, invert(matrix)))
