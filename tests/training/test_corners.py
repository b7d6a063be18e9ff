"""Corners of training images: some reflected, some continued, some hidden; the disc in the middle stays the same."""

import torch

from tokenstn.geometry import Pose, hide_corners, invert, warp
from tokenstn.training.corners import BORDER, HIDDEN, vary_corners

COUNT, SIDE = 400, 24
IMAGES = torch.rand(COUNT, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
MATRIX = Pose.of(rotation=torch.full((COUNT,), torch.pi / 4)).matrix
REFLECTED = warp(IMAGES, MATRIX, inverse=True)


def varied(epoch: int = 0, rows: slice = slice(None), draw: int = 0) -> torch.Tensor:
    index = torch.arange(COUNT)[rows]
    return vary_corners(REFLECTED[rows], IMAGES[rows], invert(MATRIX[rows]), 0, epoch, index, draw)


def same(images: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    return (images - others).abs().flatten(1).amax(1) < 1e-6


def test_each_way_has_its_share():
    seen = varied()
    border, hidden = (
        same(seen, warp(IMAGES, MATRIX, inverse=True, padding="border")),
        same(seen, hide_corners(REFLECTED)),
    )
    as_it_was = same(seen, REFLECTED)
    assert bool((border.int() + hidden.int() + as_it_was.int() == 1).all())
    for found, wanted in ((border, BORDER), (hidden, HIDDEN), (as_it_was, 1 - BORDER - HIDDEN)):
        assert abs(found.float().mean().item() - wanted) < 0.08


def test_what_lies_inside_the_disc_is_left_alone():
    middle = slice(SIDE // 4, -SIDE // 4)
    torch.testing.assert_close(varied()[..., middle, middle], REFLECTED[..., middle, middle])


def test_an_image_keeps_its_corners_whatever_the_batch_and_gets_others_in_other_epochs_and_copies():
    assert torch.equal(varied(rows=slice(100, 200)), varied()[100:200])
    assert not torch.equal(varied(epoch=1), varied()) and not torch.equal(varied(draw=1), varied())
