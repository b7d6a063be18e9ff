"""The controls tell a localizer that looks at the object from one that looks at the seams."""

import math
from dataclasses import replace

import pytest
import torch

from tokenstn.evaluation.controls import blurring, centre_square, run_controls
from tokenstn.evaluation.intervals import standard_error
from tokenstn.evaluation.photos import load_photos, posed_inputs
from tokenstn.geometry import Pose, hide_corners, invert, warp

from .toys import PREPROCESSING, CheatingSTN, HonestSTN, bare_model, table_of


def controls(model, table=None):
    table = table or table_of(24)
    found = run_controls(model, load_photos(table, torch.arange(len(table)), PREPROCESSING, 10), views=1)
    return {control.name.removesuffix(" (consistency)"): control for control in found}


def test_an_honest_localizer_passes():
    found = controls(HonestSTN())
    assert list(found) == [
        "exact quarter turns",
        "turns without seams, against turns with seams",
        "circular mask",
        "another padding",
        "another interpolation",
    ]
    for control in found.values():
        assert not control.warns and control.accuracy == control.reference == 1.0, control.sentence
    assert found["exact quarter turns"].bare_accuracy == 0.0  # the bare reader is right upright only
    assert "100.0% right against 100.0%" in found["circular mask"].sentence


def test_a_localizer_that_reads_the_corners_is_caught_by_the_mask():
    found = controls(CheatingSTN())
    assert found["circular mask"].reference == 1.0, "with its corners it is never wrong"
    assert found["circular mask"].accuracy < 0.5 and found["circular mask"].warns
    assert "points apart; the localizer reads the angle from the corners" in found["circular mask"].sentence


class SeamReader(HonestSTN):
    """Knows the angle only where the image was resampled: where its blue ramp, out to the corners, is no plane."""

    def angle(self, images):
        blue = images[:, 2]
        bent = (blue.diff(n=2, dim=1).abs().amax((1, 2)) + blue.diff(n=2, dim=2).abs().amax((1, 2))) > 0.1
        return torch.where(bent, super().angle(images), torch.zeros(len(images)))


def test_a_localizer_that_needs_seams_is_caught_by_exact_turns():
    found = controls(SeamReader())
    seams = found["turns without seams, against turns with seams"]
    assert seams.reference == 1.0 and seams.accuracy == 0.0 and seams.warns and "needs the seams" in seams.sentence
    assert not found["exact quarter turns"].warns, "a warped quarter turn has no seam either"


class NowAndThenSeamReader(SeamReader):
    """Needs seams for three images of ten."""

    def angle(self, images):
        first = torch.arange(len(images)) < 0.7 * len(images)
        return torch.where(first, HonestSTN.angle(self, images), super().angle(images))


def test_images_that_were_not_turned_hide_no_failure_on_exact_turns():
    seams = controls(NowAndThenSeamReader(), table_of(10))["turns without seams, against turns with seams"]
    assert seams.accuracy == pytest.approx(0.7), "the unturned image, always right, is not counted"


class OftenBlind(HonestSTN):
    """Does not find the angle of the first images of a batch where their corners are hidden."""

    def __init__(self, blind: int) -> None:
        super().__init__()
        self.blind = blind

    def angle(self, images):
        hidden = images[:, :, 0, 0].amax(1) == images[:, :, -1, -1].amax(1)
        found = super().angle(images)
        return torch.where(hidden & (torch.arange(len(images)) < self.blind), torch.zeros(len(images)), found)


def test_a_gap_that_may_be_chance_is_said_and_is_no_warning():
    one, all_of_them = (controls(OftenBlind(blind), table_of(10))["circular mask"] for blind in (1, 10))
    assert one.reference - one.accuracy == pytest.approx(0.025) and not one.warns
    assert "2.5 ± 4.9 points apart, which 10 images do not tell from chance" in one.sentence
    assert all_of_them.warns


def test_exact_quarter_turns_are_turns_of_the_pixels():
    square = table_of(1).items[0]
    for quarter in range(4):
        pose = Pose.of(rotation=torch.tensor(quarter * torch.pi / 2, dtype=torch.float64)).matrix
        warped = posed_inputs([square], pose, PREPROCESSING)
        exact = posed_inputs([square.rot90(-quarter, (-2, -1))], torch.eye(3), PREPROCESSING)
        torch.testing.assert_close(warped, exact, atol=1e-4, rtol=0)


def test_turns_without_seams_are_as_blurred_as_turns_with_seams():
    """Blur takes the same share of the power of noise, at any size of photo, and nothing else changes."""
    generator = torch.Generator().manual_seed(0)
    photos = [torch.randint(0, 256, (3, side, side), dtype=torch.uint8, generator=generator) for side in (160, 240)]
    for photo in photos:
        prepared = replace(PREPROCESSING, size=tuple(photo.shape[1:]))
        turned = posed_inputs([photo], Pose.of(rotation=torch.tensor(torch.pi / 4)).matrix, prepared)
        seamless, sharp = (posed_inputs([photo], pose, prepared) for pose in (blurring([photo]), torch.eye(3)))
        inside = (..., slice(60, -60), slice(60, -60))
        assert seamless[inside].var() == pytest.approx(turned[inside].var().item(), rel=0.05)
        assert seamless[inside].var() == pytest.approx(4 / 9 * sharp[inside].var().item(), rel=0.05)
    both = blurring(photos)
    assert (both[:, 0, 2] * torch.tensor([80, 120])).tolist() == pytest.approx([0.2113, 0.2113], abs=1e-4)


def test_the_mask_keeps_the_disc_and_hides_the_angle():
    images = torch.rand(2, 3, 25, 25, generator=torch.Generator().manual_seed(0))
    hidden = hide_corners(images)
    assert torch.equal(hidden[..., 12, :], images[..., 12, :])
    assert torch.equal(hidden[..., 9:16, 9:16], images[..., 9:16, 9:16])
    corner = hidden[..., 0, 0]
    assert torch.equal(hidden[..., -1, -1], corner) and torch.equal(hidden[..., 0, -1], corner)
    turned = hide_corners(warp(images, invert(Pose.of(rotation=torch.tensor(torch.pi / 2)).matrix)))
    torch.testing.assert_close(turned[..., 0, 0], corner, atol=1e-4, rtol=0)


def test_without_labels_the_controls_compare_consistency():
    table = table_of(8, labels=torch.full((8,), -1))
    found = run_controls(HonestSTN(), load_photos(table, torch.arange(8), PREPROCESSING), views=1)
    assert all(control.name.endswith("(consistency)") and control.accuracy == 1.0 for control in found)
    assert found[0].bare_accuracy == 0.0 and "the same as unturned" in found[0].sentence


def test_a_bare_classifier_has_the_controls_that_concern_it():
    found = controls(bare_model())
    assert list(found) == ["exact quarter turns", "another padding", "another interpolation"]
    assert found["exact quarter turns"].accuracy == found["exact quarter turns"].bare_accuracy == 0.0


@pytest.mark.parametrize(("height", "width"), [(4, 7), (9, 4), (5, 5)])
def test_the_centre_square_is_in_the_centre(height, width):
    photo = torch.arange(height * width).reshape(1, height, width)
    square = centre_square(photo)
    side = min(height, width)
    assert square.shape == (1, side, side)
    assert square[0, 0, 0] == photo[0, (height - side) // 2, (width - side) // 2]


def test_images_of_a_group_are_not_independent():
    generator = torch.Generator().manual_seed(0)
    groups, each = 400, 5
    shares = torch.randn(groups, generator=generator, dtype=torch.float64).repeat_interleave(each)
    alone, grouped = torch.arange(groups * each), torch.arange(groups).repeat_interleave(each)
    assert standard_error(shares, grouped) == pytest.approx(each**0.5 * standard_error(shares, alone), rel=0.01)
    assert standard_error(shares, alone) == pytest.approx(shares.std().item() / len(shares) ** 0.5, rel=1e-6)
    assert standard_error(shares[:each], grouped[:each]) == math.inf


def test_a_gap_within_one_group_warns_of_nothing():
    table = table_of(24)
    assert controls(CheatingSTN(), table)["circular mask"].warns
    one = controls(CheatingSTN(), replace(table, groups=["a trap"] * 24))["circular mask"]
    assert not one.warns and "points apart, which 24 images of 1 group do not tell from chance" in one.sentence
    assert "inf" not in one.sentence
