"""Upright data are told from data that lie any way, with noise."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from tokenstn import TokenSTN
from tokenstn.training import is_upright
from tokenstn.training.bare import value_by_angle

ANGLES = 2 * math.pi * np.arange(16) / 16


def measured(accuracy: np.ndarray, images: int, seed: int) -> torch.Tensor:
    """Accuracy by angle of ``images`` images that are each easy or hard at all angles."""
    difficulty = np.random.default_rng(seed).random(images)
    wobble = np.random.default_rng(seed + 1000).normal(0, 0.1, (len(accuracy), images))
    return torch.from_numpy(((difficulty + wobble) % 1 < accuracy[:, None]).mean(1))


@pytest.mark.parametrize("images", [60, 200, 2000])
@pytest.mark.parametrize(("best", "worst"), [(0.98, 0.3), (0.85, 0.55), (0.6, 0.3), (0.3, 0.02)])
def test_upright_curves_are_recognised(best, worst, images):
    if images == 60 and best - worst < 0.4:
        images = 200  # too few to tell
    curve = worst + (best - worst) * np.exp(-((np.minimum(ANGLES, 2 * math.pi - ANGLES) / 0.5) ** 2))
    found = [is_upright(measured(curve, images, seed), images).upright for seed in range(50)]
    assert np.mean(found) >= 0.98


@pytest.mark.parametrize("images", [20, 200, 2000])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 1.0])
def test_flat_curves_are_not_upright(level, images):
    found = [is_upright(measured(np.full(16, level), images, seed), images).upright for seed in range(200)]
    assert np.mean(found) <= 0.01


def test_blur_between_quarter_turns_is_not_taken_for_uprightness():
    """Every turn but a quarter turn resamples the image, which costs any classifier something."""
    sharp = np.isin(np.arange(16), [0, 4, 8, 12])
    verdict = is_upright(torch.from_numpy(np.where(sharp, 0.9, 0.7)), 2000)
    assert not verdict.upright and verdict.drop == pytest.approx(0)


def test_too_few_images_are_not_enough_and_the_sentence_says_so():
    verdict = is_upright(torch.tensor([0.9, 0.5, 0.5, 0.5]), 5)
    assert not verdict.upright and "with 5 images this may be chance" in verdict.sentence


def test_the_sentence_says_what_was_found():
    unlabelled = is_upright(torch.tensor([0.9, 0.4, 0.5, 0.4]), 300, labelled=False)
    assert "mean confidence of 90.0%" in unlabelled.sentence
    upright = is_upright(torch.tensor([0.9, 0.4, 0.5, 0.4]), 300)
    assert "90.0%" in upright.sentence and "43.3%" in upright.sentence and "upright" in upright.sentence
    flat = is_upright(torch.full((8,), 0.8), torch.full((8,), 300))
    assert "no orientation stands out" in flat.sentence and flat.standard_error > 0


@pytest.mark.parametrize("values", [[0.5, 0.5], [0.5, 0.5, 0.5, 1.5], [math.nan] * 4])
def test_what_is_no_curve_is_refused(values):
    with pytest.raises(ValueError, match="at least 4 angles"):
        is_upright(torch.tensor(values), 10)


def test_an_angle_without_images_is_refused():
    with pytest.raises(ValueError, match="at least one image"):
        is_upright(torch.full((4,), 0.5), torch.tensor([1, 0, 1, 1]))


def test_several_labels_are_as_sure_as_each_of_them():
    class Upright(nn.Module):
        """Fourteen labels, of which two are certain where the upper half is bright, and none is elsewhere."""

        def forward(self, images):
            bright = images[..., : images.shape[-2] // 2, :].mean((1, 2, 3)) > images.mean((1, 2, 3)) + 0.1
            sure = torch.tensor([8.0, 8.0] + [-8.0] * 12)
            return torch.where(bright[:, None], sure, torch.zeros(14))

    images = torch.zeros(8, 1, 16, 16)
    images[..., :8, :] = 1.0
    model = TokenSTN(Upright(), primitives=(), multi_label=True, input_size=(16, 16))
    confidence = value_by_angle(model, images, None, order=4)
    assert confidence[0] > 0.99 and confidence[1:].max() == pytest.approx(0.5)
    assert is_upright(confidence, 200, labelled=False).upright


def test_labels_that_are_seldom_given_tell_uprightness_as_well():
    class Sparse(nn.Module):
        """One of fourteen labels where the upper half is bright, elsewhere not more than how often each is given."""

        def forward(self, images):
            bright = images[..., : images.shape[-2] // 2, :].mean((1, 2, 3)) > images.mean((1, 2, 3)) + 0.1
            found, base = torch.tensor([0.95] + [0.02] * 13), torch.full((14,), 0.07)
            return torch.where(bright[:, None], found.logit(), base.logit())

    images = torch.zeros(8, 1, 16, 16)
    images[..., :8, :] = 1.0
    model = TokenSTN(Sparse(), primitives=(), multi_label=True, input_size=(16, 16))
    assert is_upright(value_by_angle(model, images, None, order=4), 500, labelled=False).upright
