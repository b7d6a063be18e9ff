"""Inside an exported graph a photo is fitted bit for bit as outside of it, whatever its size."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tokenstn.data import fit, to_float
from tokenstn.data.fit import ROOM, fit_layout
from tokenstn.geometry import Pose, fit_matrix, pose_in_photo
from tokenstn.inference.export_fit import Fitting
from tokenstn.inference.export_parts import Placing
from tokenstn.models import Preprocessing

sides = st.integers(1, 150)


@settings(max_examples=60, deadline=None)
@given(
    height=sides,
    width=sides,
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    resize=st.sampled_from(["crop", "pad", "squash"]),
    crop_share=st.sampled_from([1.0, 0.875, 0.9]),
    interpolation=st.sampled_from(["bilinear", "bicubic"]),
    channels=st.sampled_from([1, 3]),
)
@torch.no_grad()
def test_the_pixels_are_those_of_the_products_own_fit(height, width, size, resize, crop_share, interpolation, channels):
    resized = fit_layout((height, width), size, resize, crop_share)[0]
    assume(min(resized) > 1)  # on single rows torch's own kernel fails
    # photos that are longer lose their ends before they are resized outside of a graph, and not inside
    assume(all(long <= ROOM * wanted for long, wanted in zip(resized, size, strict=True)))
    mean, std = (0.4, 0.5, 0.6)[:channels], (0.2, 0.25, 0.3)[:channels]
    prepared = Preprocessing(size, mean, std, resize, crop_share, interpolation)
    generator = torch.Generator().manual_seed(height * 1000 + width)
    photos = torch.randint(256, (2, channels, height, width), generator=generator, dtype=torch.uint8)
    found = Fitting(prepared)(photos)
    fitted = torch.stack([fit(photo, size, resize, crop_share, interpolation) for photo in photos])
    assert torch.equal(found["images"], to_float(fitted, mean, std))
    expected = fit_matrix((height, width), size, resize, crop_share)
    torch.testing.assert_close(found["fit"].double(), expected, atol=1e-6, rtol=1e-6)


def test_an_image_of_the_right_size_is_left_as_it_is():
    prepared = Preprocessing((32, 48), (0.5,), (0.25,))
    photos = torch.randint(256, (1, 1, 32, 48), dtype=torch.uint8)
    assert torch.equal(Fitting(prepared)(photos)["images"], to_float(photos, (0.5,), (0.25,)))


@pytest.mark.parametrize("resize", ["crop", "pad", "squash"])
def test_a_pose_is_placed_in_the_photo_as_elsewhere(resize):
    generator = torch.Generator().manual_seed(0)
    angle, scale = torch.rand(2, 5, generator=generator)
    shift = torch.rand(5, 2, generator=generator) - 0.5
    matrix = Pose.of(rotation=6 * angle, scale=0.5 + scale, translation=shift).matrix
    place = fit_matrix((300, 431), (64, 48), resize, 0.9)
    found = Placing()(matrix, place.float())["photo_pose"]
    torch.testing.assert_close(found.double(), pose_in_photo(matrix, place), atol=1e-5, rtol=1e-5)
