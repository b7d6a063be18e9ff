"""Where the recipe says so, rectifiers and rivals see images mirrored left-right too, the same ones in every run."""

from dataclasses import replace

import pytest
import torch

from tokenstn.training.poses import draw_mirrored
from tokenstn.training.recipes import DEFAULT
from tokenstn.training.rectifier_training import RectifierTraining, require_learnable

from .test_engine import PREPARED, fresh

INDEX = torch.arange(200)


def test_each_image_is_mirrored_in_half_of_the_epochs_whatever_it_is_drawn_with():
    drawn = torch.stack([draw_mirrored(0, epoch, INDEX) for epoch in range(40)]).double()
    assert 0.45 < drawn.mean() < 0.55
    assert drawn.mean(0).min() > 0 and drawn.mean(0).max() < 1
    assert draw_mirrored(0, 7, INDEX[5:6]).item() == bool(drawn[7, 5])
    assert not torch.equal(draw_mirrored(1, 0, INDEX), draw_mirrored(0, 0, INDEX))


def test_a_rectifier_learns_from_the_mirrored_image_at_the_pose_that_was_applied():
    images = torch.rand(len(INDEX), 1, 28, 28, generator=torch.Generator().manual_seed(0))
    mirrored = draw_mirrored(0, 0, INDEX)[:, None, None, None]
    by_hand = torch.where(mirrored, images.flip(-1), images)
    plain, mirroring = (
        RectifierTraining(fresh(), replace(DEFAULT, mirror=mirror), PREPARED, seed=0) for mirror in (False, True)
    )
    torch.nn.init.normal_(plain.model.localizer.heads["rotation"][-1].weight)  # a fresh one answers without looking
    mirroring.model.load_state_dict(plain.model.state_dict())
    expected, found = plain.terms(by_hand, {"index": INDEX}), mirroring.terms(images, {"index": INDEX})
    for name, term in expected.items():
        torch.testing.assert_close(found[name], term)
    assert any(not torch.allclose(found[name], term) for name, term in plain.terms(images, {"index": INDEX}).items())


def test_what_is_mirrored_cannot_be_learned_from_images_that_are_mirrored_at_random():
    model = fresh(primitives=("rotation", "reflection"))
    with pytest.raises(ValueError, match="do not tell what is mirrored: leave --mirror out"):
        RectifierTraining(model, replace(DEFAULT, mirror=True), PREPARED, seed=0)
    require_learnable(model, DEFAULT, upright=True)
