"""Warps: images, points, boxes and masks move together, in any dtype, in both directions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from tokenstn.geometry import (
    Pose,
    compose,
    decompose,
    frame_to_pixels,
    invert,
    pixels_to_frame,
    warp,
    warp_boxes,
    warp_mask,
    warp_points,
)

SCIPY_PADDING = {"reflection": "reflect", "border": "nearest", "zeros": "grid-constant"}
GENERAL = {"rotation": 0.6, "scale": 0.8, "stretch": 1.2, "shear": 0.3, "translation": (0.15, -0.1)}
fast = settings(max_examples=20, deadline=None)


def pose_matrix(dtype=torch.float64, **parts):
    rotation = torch.tensor(parts.pop("rotation", 0.0), dtype=dtype)
    return Pose.of(rotation=rotation, **parts).matrix


def noise(*shape, seed=0, dtype=torch.float64):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def blobs(size, *centres, width=3.0):
    """An image of smooth blobs at pixel coordinates (x, y); far enough from the sides it is 0 there."""
    y, x = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) + 0.5 for n in size), indexing="ij")
    heights = [(k + 1) * torch.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * width**2)) for k, (a, b) in enumerate(centres)]
    return sum(heights)[None, None]


def interior(image):
    """The middle third each way, which no padding reaches under the poses used here."""
    height, width = image.shape[-2:]
    reach = min(height, width) // 6
    return image[..., height // 2 - reach : height // 2 + reach, width // 2 - reach : width // 2 + reach]


def assert_interior_close(found, expected, readings=2):
    # a bilinear reading of a blob of height 2 and width 3 px loses at most 2 · 2/3² / 8 = 0.06, more when enlarged
    torch.testing.assert_close(interior(found), interior(expected), rtol=0, atol=0.08 * readings)


def centroid(image):
    """The centre of mass (x, y) in pixels."""
    weight = image[0, 0]
    y, x = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) + 0.5 for n in weight.shape), indexing="ij")
    return torch.stack(((weight * x).sum(), (weight * y).sum())) / weight.sum()


def reference(image, matrix, size, order, padding):
    """The same warp by scipy, with coordinates worked out pixel by pixel from the definition of the frame."""
    image, matrix = image.numpy(), matrix.numpy()
    (height, width), (out_height, out_width) = image.shape, size
    rows, columns = np.mgrid[:out_height, :out_width]
    unit, out_unit = min(height, width) / 2, min(size) / 2
    x, y = (columns + 0.5 - out_width / 2) / out_unit, (rows + 0.5 - out_height / 2) / out_unit
    read_x, read_y, _ = np.einsum("ij,jhw->ihw", matrix, np.stack((x, y, np.ones_like(x))))
    places = (read_y * unit + height / 2 - 0.5, read_x * unit + width / 2 - 0.5)
    return torch.from_numpy(ndimage.map_coordinates(image, places, order=order, mode=SCIPY_PADDING[padding]))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("padding", SCIPY_PADDING)
@pytest.mark.parametrize(("mode", "order"), [("bilinear", 1), ("nearest", 0)])
@pytest.mark.parametrize("size", [(12, 17), (20, 11)])
def test_a_general_warp_agrees_with_scipy(inverse, padding, mode, order, size):
    image, matrix = noise(14, 19), pose_matrix(**GENERAL, reflection=-1.0)
    found = warp(image[None, None], matrix, size, inverse=inverse, padding=padding, mode=mode)[0, 0]
    expected = reference(image, invert(matrix) if inverse else matrix, size, order, padding)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_the_identity_leaves_every_pixel(mode):
    image = noise(2, 3, 9, 14)
    torch.testing.assert_close(warp(image, torch.eye(3).double(), mode=mode), image)


def test_bicubic_follows_a_smooth_image_more_closely():
    image, matrix = blobs((40, 40), (16, 18), (24, 23)), pose_matrix(rotation=0.4)
    expected = blobs((40, 40), *warp_points(torch.tensor([[16.0, 18.0], [24.0, 23.0]]).double(), matrix, size=(40, 40)))
    errors = {m: (warp(image, matrix, mode=m) - expected).abs().max() for m in ("nearest", "bilinear", "bicubic")}
    assert errors["bicubic"] < errors["bilinear"] < errors["nearest"]


@pytest.mark.parametrize("size", [(48, 48), (48, 64), (60, 44)])
@given(
    angle=st.floats(-math.pi, math.pi),
    scale=st.floats(0.85, 1.3),
    shear=st.floats(-0.3, 0.3),
    shift=st.tuples(st.floats(-0.1, 0.1), st.floats(-0.1, 0.1)),
    reflection=st.sampled_from([-1.0, 1.0]),
)
@fast
def test_warping_there_and_back_returns_the_image(size, angle, scale, shear, shift, reflection):
    middle = size[1] / 2, size[0] / 2
    image = blobs(size, (middle[0] - 4, middle[1]), (middle[0] + 3, middle[1] + 5))
    matrix = pose_matrix(rotation=angle, scale=scale, shear=shear, translation=shift, reflection=reflection)
    back = warp(warp(image, matrix), matrix, inverse=True)
    assert_interior_close(back, image)


@given(angle=st.floats(-math.pi, math.pi), scale=st.floats(0.8, 1.2), reflection=st.sampled_from([-1.0, 1.0]))
@fast
def test_applying_a_pose_to_an_image_multiplies_its_pose_from_the_left(angle, scale, reflection):
    upright = blobs((56, 56), (24, 26), (33, 29))
    first = pose_matrix(rotation=0.7, shear=0.2, translation=(0.1, -0.05), reflection=-1.0)
    applied = pose_matrix(rotation=angle, scale=scale, reflection=reflection)
    posed = warp(warp(upright, invert(first)), invert(applied))
    assert_interior_close(posed, warp(upright, invert(applied @ first)))
    assert_interior_close(warp(posed, applied @ first), upright, readings=3)


def test_turning_a_mirrored_object_turns_its_angle_the_other_way():
    upright = blobs((56, 56), (22, 26), (34, 30))
    mirrored = Pose.of(rotation=torch.tensor(0.5).double(), reflection=-1.0)
    turned = warp(warp(upright, invert(mirrored.matrix)), pose_matrix(rotation=-0.3))
    expected = Pose.of(rotation=torch.tensor(0.2).double(), reflection=-1.0)
    assert_interior_close(warp(turned, expected.matrix), upright, readings=3)


@pytest.mark.parametrize("padding", SCIPY_PADDING)
@pytest.mark.parametrize("quarters", [-1, 1, 2, 3])
@pytest.mark.parametrize("size", [(12, 12), (13, 13), (10, 16), (15, 8)])
def test_a_quarter_turn_is_a_transposition_of_pixels(size, quarters, padding):
    image = noise(2, 3, *size, dtype=torch.float32)
    matrix = pose_matrix(torch.float32, rotation=quarters * math.pi / 2)
    out = size if quarters % 2 == 0 else size[::-1]
    torch.testing.assert_close(
        warp(image, matrix, out, padding=padding), torch.rot90(image, quarters, (2, 3)), rtol=0, atol=1e-3
    )


@pytest.mark.parametrize(("parts", "dims"), [({"reflection": -1.0}, 2), ({"reflection": -1.0, "rotation": math.pi}, 3)])
def test_mirrors_flip_the_rows_or_the_columns(parts, dims):
    image = noise(1, 2, 7, 10)
    torch.testing.assert_close(warp(image, pose_matrix(**parts)), image.flip(dims))


@given(axis=st.floats(-math.pi, math.pi), shear=st.floats(-0.5, 0.5))
@fast
def test_a_shear_along_any_axis_is_a_conjugate_of_the_canonical_one(axis, shear):
    turn, canonical = pose_matrix(rotation=axis), pose_matrix(shear=shear)
    conjugate = turn @ canonical @ invert(turn)
    along = torch.tensor([math.cos(axis), math.sin(axis)], dtype=torch.float64)
    across = torch.tensor([-math.sin(axis), math.cos(axis)], dtype=torch.float64)
    torch.testing.assert_close(conjugate[:2, :2] @ along, along)
    torch.testing.assert_close(conjugate[:2, :2] @ across, across + shear * along)
    torch.testing.assert_close(compose(decompose(conjugate)), conjugate)
    image = blobs((48, 48), (22, 22), (27, 26))
    three = warp(warp(warp(image, turn), canonical), invert(turn))
    assert_interior_close(three, warp(image, conjugate), readings=3)


@pytest.mark.parametrize(("size", "output_size"), [((48, 48), None), ((44, 70), (60, 52)), ((70, 44), (48, 90))])
@pytest.mark.parametrize("reflection", [1.0, -1.0])
@pytest.mark.parametrize("inverse", [False, True])
def test_points_move_as_the_image_does(size, output_size, reflection, inverse):
    start, end = (output_size or size, size) if inverse else (size, output_size or size)
    place = torch.tensor([[start[1] / 2 + 5, start[0] / 2 - 4]], dtype=torch.float64)
    matrix = pose_matrix(rotation=0.9, scale=0.9, shear=0.2, translation=(0.1, 0.05), reflection=reflection)
    image = warp(blobs(start, place[0].tolist(), width=2.0), matrix, end, inverse=inverse, padding="zeros")
    moved = warp_points(place, matrix, inverse=inverse, size=size, output_size=output_size)
    torch.testing.assert_close(centroid(image), moved[0], rtol=0, atol=0.05)  # a twentieth of a pixel
    in_frame = warp_points(pixels_to_frame(place, start), matrix, inverse=inverse)
    torch.testing.assert_close(frame_to_pixels(in_frame, end), moved)
    back = warp_points(moved, matrix, inverse=not inverse, size=size, output_size=output_size)
    torch.testing.assert_close(back, place)


def test_points_take_one_matrix_for_each_batch():
    points, matrices = noise(4, 5, 2), Pose.of(rotation=noise(4), shear=noise(4, seed=1)).matrix
    each = torch.stack([warp_points(p, m) for p, m in zip(points, matrices, strict=True)])
    torch.testing.assert_close(warp_points(points, matrices), each)


@pytest.mark.parametrize("size", [(31, 45), (30, 44)])
def test_whole_pixel_coordinates_move_as_fractions_do(size):
    whole = torch.tensor([[3, 20], [31, 7]])
    matrix = pose_matrix(torch.float32, **GENERAL)
    torch.testing.assert_close(warp_points(whole, matrix, size=size), warp_points(whole.float(), matrix, size=size))


@given(seed=st.integers(0, 10_000), inverse=st.booleans())
@fast
def test_a_moved_box_encloses_what_was_inside_and_no_more(seed, inverse):
    corners = noise(3, 2, 2, seed=seed) * 2 - 1
    boxes = torch.cat((corners.amin(1), corners.amax(1)), -1)
    matrix = pose_matrix(**GENERAL)
    moved = warp_boxes(boxes, matrix, inverse=inverse).unsqueeze(1)
    low, high = boxes[:, None, :2], boxes[:, None, 2:]
    sides = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=torch.float64)
    inside = torch.cat((noise(3, 40, 2, seed=seed + 1), sides.expand(3, 4, 2)), 1)
    points = warp_points(low + inside * (high - low), matrix, inverse=inverse)
    assert bool(((points >= moved[..., :2] - 1e-12) & (points <= moved[..., 2:] + 1e-12)).all())
    torch.testing.assert_close(torch.cat((points.amin(1), points.amax(1)), -1), moved[:, 0])


def test_a_moved_box_is_where_the_moved_mask_is():
    size, out, matrix = (50, 70), (60, 56), pose_matrix(**GENERAL)
    mask = torch.zeros(1, *size, dtype=torch.bool)
    mask[:, 20:32, 28:45] = True
    box = warp_boxes(torch.tensor([[28.0, 20.0, 45.0, 32.0]]).double(), matrix, size=size, output_size=out)[0]
    rows, columns = warp_mask(mask, matrix, out)[0].nonzero().unbind(-1)
    seen = torch.stack((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)).double()
    torch.testing.assert_close(seen, box, rtol=0, atol=1.5)  # a sharp corner may miss the pixel centres


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float32])
@pytest.mark.parametrize("inverse", [False, True])
def test_a_mask_moves_as_the_image_with_nearest_does(dtype, inverse):
    mask = (noise(2, 3, 15, 22) * 4).to(dtype)
    matrix = pose_matrix(**GENERAL)
    image = warp(mask.double(), matrix, (18, 16), inverse=inverse, padding="zeros", mode="nearest")
    moved = warp_mask(mask, matrix, (18, 16), inverse=inverse)
    assert moved.dtype == dtype
    torch.testing.assert_close(moved.double(), image)
    torch.testing.assert_close(warp_mask(mask[:, 0], matrix, (18, 16), inverse=inverse), moved[:, 0])


LARGE = [
    *[(torch.int64, label) for label in (2**24 + 1, 2**31 - 1, 2**53 + 1, 2**63 - 1, -(2**63))],
    *[(torch.uint32, label) for label in (2**24 + 1, 2**32 - 1)],
    *[(torch.uint64, label) for label in (2**24 + 1, 2**53 + 1, 2**64 - 1)],
]


@pytest.mark.parametrize(("dtype", "label"), LARGE)
def test_large_labels_survive(dtype, label):
    mask = torch.full((1, 5, 5), label, dtype=dtype)
    moved = warp_mask(mask, torch.eye(3))
    assert moved.dtype == dtype and moved.flatten().tolist() == [label] * 25


@pytest.mark.parametrize("padding", ["reflection", "zeros", "border"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint64])
def test_integers_of_64_bits_are_read_where_floats_are(dtype, padding):
    labels = torch.randint(0, 2**40, (2, 3, 15, 22), generator=torch.Generator().manual_seed(0))
    for angle in (-2.8, -1.0, 0.3, 1.9, torch.pi / 2):  # a quarter turn reads on the edges of pixels
        views = pose_matrix(rotation=angle, scale=1.6).expand(2, 3, 3, 3)
        expected = warp(labels.double(), views, (18, 16), padding=padding, mode="nearest")
        found = warp(labels.to(dtype), views, (18, 16), padding=padding, mode="nearest")
        assert torch.equal(found.double(), expected)


@pytest.mark.parametrize("strict", [True, False])
def test_masks_of_64_bits_are_exported_for_any_number_of_images(strict):
    class Mask(torch.nn.Module):
        def forward(self, mask: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
            return warp_mask(mask, matrix)

    masks, matrices = torch.randint(0, 2**40, (3, 9, 12)), pose_matrix(rotation=0.4, scale=1.2).expand(3, 3, 3)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(Mask(), (masks, matrices), dynamic_shapes=({0: batch}, {0: batch}), strict=strict)
    for count in (1, 3):
        expected = warp_mask(masks[:count], matrices[:count])
        assert torch.equal(program.module()(masks[:count], matrices[:count]), expected)
