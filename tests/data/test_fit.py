"""What fitting does to a photo is an affine map: landmarks land where the matrix says."""

import math

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as F

from tokenstn.data import fit, fit_matrix
from tokenstn.data.fit import fit_pixels
from tokenstn.geometry import Pose, frame_to_pixels, invert, pixels_to_frame, warp

PHOTOS = [(301, 457), (457, 301), (233, 997), (640, 480), (97, 97), (40, 55)]
SIZES = [(224, 224), (96, 161)]


def blob(size, centre, radius):
    """A soft white spot on black, (1, H, W) uint8; centre = x, y in pixels."""
    height, width = size
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    return (
        (255 * torch.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / (2 * radius**2)))
        .round()
        .to(torch.uint8)[None]
    )


def centroid(image):
    """x, y of the middle of the brightness, in pixels."""
    weight = image[0].double()
    x = (weight.sum(0) * (torch.arange(weight.shape[1]) + 0.5)).sum() / weight.sum()
    y = (weight.sum(1) * (torch.arange(weight.shape[0]) + 0.5)).sum() / weight.sum()
    return torch.stack((x, y))


def moved(point, matrix):
    return matrix[:2, :2] @ point + matrix[:2, 2]


@pytest.mark.parametrize("photo", PHOTOS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("resize", ["crop", "pad", "squash"])
@pytest.mark.parametrize("crop_share", [1.0, 0.875])
def test_a_landmark_lands_where_the_matrix_says(photo, size, resize, crop_share):
    matrix = fit_matrix(photo, size, resize, crop_share)
    zoom = matrix.diagonal()[:2] * (min(size) / min(photo))  # pixels of the network for one of the photo, x and y
    reach = 0.6 * min(photo) / 2 * zoom  # nearer than any copy of the spot in the reflected continuation
    for offset in ((0.0, 0.0), (0.3, -0.2), (-0.25, 0.35)):
        landmark = torch.tensor(offset, dtype=torch.float64)
        start = frame_to_pixels(landmark, photo)
        seen = fit(blob(photo, start.tolist(), max(2 / zoom.min().item(), 1.5)), size, resize, crop_share, "bilinear")
        assert seen.shape == (1, *size)
        expected = frame_to_pixels(moved(landmark, matrix), size)
        assert torch.linalg.vector_norm(centroid(seen * _near(size, expected, reach)) - expected) < 0.1


def _near(size, spot, reach):
    """1 within ``reach`` of a spot, else 0, ``(H, W)``."""
    y, x = torch.meshgrid(torch.arange(size[0]) + 0.5, torch.arange(size[1]) + 0.5, indexing="ij")
    return ((x - spot[0]).abs() < reach[0]) & ((y - spot[1]).abs() < reach[1])


@pytest.mark.parametrize("resize", ["crop", "pad"])
def test_the_aspect_is_kept_to_within_the_rounding(resize):
    matrix = fit_matrix((301, 457), (224, 224), resize)
    assert math.isclose(matrix[0, 0].item(), matrix[1, 1].item(), rel_tol=0.5 / 147)
    squashed = fit_matrix((301, 457), (224, 224), "squash")
    assert math.isclose(squashed[1, 1].item() / squashed[0, 0].item(), 457 / 301)


@pytest.mark.parametrize("resize", ["crop", "pad", "squash"])
def test_a_pose_found_by_the_network_is_taken_back_to_the_photo(resize):
    photo, size = (300, 500), (120, 120)
    matrix = fit_matrix(photo, size, resize)
    pose = Pose.of(rotation=torch.tensor(0.5, dtype=torch.float64), translation=(0.1, -0.05)).matrix
    in_photo = invert(matrix) @ pose @ matrix
    image = blob(photo, (300.0, 130.0), 12.0)
    expected = frame_to_pixels(
        moved(moved(pixels_to_frame(torch.tensor([300.0, 130.0]).double(), photo), matrix), invert(pose)), size
    )
    near = _near(size, expected, (25, 25))
    rectified_then_fitted = fit(warp(image[None], in_photo)[0], size, resize)
    fitted_then_rectified = warp(fit(image, size, resize)[None], pose)[0]
    for way in (rectified_then_fitted, fitted_then_rectified):
        assert torch.linalg.vector_norm(centroid(way * near) - expected) < 0.1


def test_a_box_is_part_of_the_matrix():
    photo, box, size = (200, 300), (110, 30, 250, 150), (64, 64)
    start = torch.tensor([190.0, 80.0], dtype=torch.float64)
    image = blob(photo, start.tolist(), 8.0)
    seen = fit(image[:, box[1] : box[3], box[0] : box[2]], size, "squash", interpolation="bilinear")
    expected = moved(pixels_to_frame(start, photo), fit_matrix(photo, size, "squash", box=box))
    assert torch.linalg.vector_norm(pixels_to_frame(centroid(seen), size) - expected) < 0.1 / 32


def test_an_image_of_the_right_size_is_left_alone():
    image = torch.randint(0, 256, (3, 32, 48), dtype=torch.uint8)
    for resize in ("crop", "pad", "squash"):
        assert torch.equal(fit(image, (32, 48), resize), image)
        assert torch.equal(fit_matrix((32, 48), (32, 48), resize), torch.eye(3, dtype=torch.float64))


def test_shrinking_is_antialiased():
    stripes = torch.zeros(1, 256, 256, dtype=torch.uint8)
    stripes[..., ::2] = 255
    assert fit(stripes, (32, 32)).float().std() < 10


def test_padding_continues_the_photo_by_reflection_however_long_it_is():
    row = torch.tensor([[[10, 20, 30]]], dtype=torch.uint8)
    assert fit(row, (5, 3), "pad")[0, :, 0].tolist() == [10] * 5
    assert fit(row.movedim(1, 2), (3, 11), "pad")[0, 0].tolist() == [10] * 11
    wide = torch.arange(8, dtype=torch.uint8).reshape(1, 2, 4)
    assert fit(wide, (6, 4), "pad")[0, :, 0].tolist() == [4, 0, 0, 4, 4, 0]


@pytest.mark.parametrize("photo", [(1, 1), (1, 500), (500, 1), (3, 2)])
@pytest.mark.parametrize("resize", ["crop", "pad", "squash"])
def test_tiny_and_extreme_photos_fit(photo, resize):
    assert fit(torch.full((3, *photo), 9, dtype=torch.uint8), (16, 24), resize).unique().tolist() == [9]
    assert torch.isfinite(fit_matrix(photo, (16, 24), resize)).all()


@pytest.mark.parametrize("photo", [(5, 900), (900, 5), (6, 901), (901, 6)])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_a_photo_of_any_length_is_cut_as_if_it_were_resized_whole(photo, interpolation):
    y, x = torch.meshgrid(*(torch.arange(side) / 4 for side in photo), indexing="ij")
    image = torch.stack([127 * (1 + torch.sin(x + k) * torch.cos(y - k)) for k in range(3)]).to(torch.uint8)
    scale = 17 / min(photo)
    whole = F.resize(image, [round(side * scale) for side in photo], F.InterpolationMode(interpolation), antialias=True)
    top, left = ((side - 17) // 2 for side in whole.shape[1:])
    expected = whole[:, top : top + 17, left : left + 17].float()
    difference = fit(image, (17, 17), interpolation=interpolation).float() - expected
    assert difference.abs().max() <= 2 and difference.abs().mean() < 0.3


@pytest.mark.parametrize("photo", [(1, 10_000_000), (10_000_000, 1), (3, 2_000_000)])
@pytest.mark.parametrize("resize", ["crop", "pad", "squash"])
def test_the_longest_photos_need_no_more_room_than_they_have(photo, resize):
    """Resized before it is cut, the first would have 500,000,000,000 pixels."""
    image = torch.full((1, 1, 1), 9, dtype=torch.uint8).expand(1, *photo)
    assert fit(image, (224, 224), resize).unique().tolist() == [9]


@pytest.mark.parametrize("photo", [(7, 1), (1, 7), (7, 5), (30, 2000)])
@pytest.mark.parametrize("size", [(1, 1), (5, 1), (1, 5), (9, 1)])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_one_column_is_made_as_pillow_makes_it(photo, size, interpolation):
    """torch itself fails for bytes in colour, and repeats the first row for floating point."""
    pixels = torch.randint(0, 256, (3, *photo), dtype=torch.uint8)
    method = Image.Resampling[interpolation.upper()]
    image = Image.fromarray(pixels.movedim(0, -1).numpy()).resize(size[::-1], method)
    expected = torch.from_numpy(np.array(image)).movedim(-1, 0).float()
    for given in (pixels, pixels.movedim(0, -1).contiguous().movedim(-1, 0)):
        assert (fit(given, size, "squash", interpolation=interpolation).float() - expected).abs().max() <= 1
    exact = fit_pixels(pixels[None].float(), size, "squash", interpolation=interpolation)[0].clamp(0, 255)
    assert (exact - expected).abs().max() <= 8  # Pillow cuts values off between its two steps


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"resize": "stretch"}, "one of crop, pad, squash"),
        ({"crop_share": 0.0}, "crop_share 0.0"),
        ({"crop_share": 1e-9}, "crop_share 1e-09"),
        ({"crop_share": math.nan}, "crop_share nan"),
        ({"size": (0, 5)}, "at least 1"),
        ({"interpolation": "nearest"}, "bilinear or bicubic"),
        ({"image": torch.zeros(3, 4, 4)}, "uint8"),
    ],
)
def test_a_bad_value_is_refused(change, reason):
    settings = {"image": torch.zeros(3, 4, 4, dtype=torch.uint8), "size": (8, 8)}
    with pytest.raises(ValueError, match=reason):
        fit(**{**settings, **change})
