"""Sliders: what they do to a photo is what their words say."""

import pytest
import torch

from tokenstn.apps.moves import Moves, padding_for, shrink, to_png
from tokenstn.data import read_image


@pytest.fixture
def photo():
    draw = torch.Generator().manual_seed(0)
    return (255 * torch.rand(3, 40, 40, generator=draw)).to(torch.uint8)


def test_nothing_moved_is_the_photo_itself(photo):
    assert torch.equal(Moves().apply(photo), photo)


def test_a_quarter_turn_is_clockwise_and_a_mirror_left_right(photo):
    assert torch.equal(Moves(turn=90).apply(photo), photo.rot90(-1, (1, 2)))
    assert torch.equal(Moves(turn=180).apply(photo), photo.flip((1, 2)))
    assert torch.equal(Moves(mirrored=True).apply(photo), photo.flip(2))
    # mirrored first, then turned
    assert torch.equal(Moves(turn=90, mirrored=True).apply(photo), photo.flip(2).rot90(-1, (1, 2)))


def test_a_shift_goes_right_and_down(photo):
    moved = Moves(right=50, down=20).apply(photo)  # of half a side of 40: 10 and 4 pixels
    assert torch.equal(moved[:, 4:, 10:], photo[:, :-4, :-10])


def test_zooming_in_makes_the_object_larger():
    square = torch.zeros(1, 60, 60, dtype=torch.uint8)
    square[:, 20:40, 20:40] = 255
    larger, smaller = (int((Moves(zoom=zoom).apply(square) > 127).sum()) for zoom in (1.5, 0.5))
    assert larger == 30 * 30 and smaller == 10 * 10


def test_a_background_goes_on_and_a_scene_is_reflected(photo):
    digit = torch.zeros(1, 40, 40, dtype=torch.uint8)
    digit[:, 10:30, 18:22] = 255
    assert padding_for(digit) == "border" and padding_for(photo) == "reflection"
    assert int((Moves(zoom=0.5).apply(digit) > 127).sum()) == 10 * 2  # no second digit at the edge


def test_large_photos_become_small_enough_and_keep_their_shape():
    assert shrink(torch.zeros(3, 600, 1600, dtype=torch.uint8)).shape == (3, 300, 800)
    assert shrink(torch.zeros(1, 5, 4000, dtype=torch.uint8)).shape == (1, 1, 800)
    assert shrink(torch.zeros(3, 60, 16, dtype=torch.uint8)).shape == (3, 60, 16)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_png_holds_the_same_pixels(photo, channels):
    assert torch.equal(read_image(to_png(photo[:channels]), channels), photo[:channels])
