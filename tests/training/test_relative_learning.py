"""Comets that all lie differently, no upright one anywhere: their poses become consistent."""

import math
from dataclasses import replace

import pytest
import torch

from tokenstn import TokenSTN
from tokenstn.geometry import Pose, Rotation, Scale, warp, wrap_angle
from tokenstn.training import draw_pose_pairs, draw_poses, relative_alignment
from tokenstn.training.recipes import DEFAULT
from tokenstn.training.rectifier_training import RectifierTraining

from ..models.classifiers import PlainCNN
from .test_engine import PREPARED, fresh
from .toys import SIDE, comets

STEPS, BATCH = 200, 32


@pytest.fixture(scope="module")
def trained() -> TokenSTN:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    classifier = PlainCNN(channels=1).eval().requires_grad_(False)
    primitives = (Rotation(), Scale())
    model = TokenSTN(classifier, primitives, shared="body", input_size=(SIDE, SIDE), localization_size=SIDE).train()
    optimizer = torch.optim.AdamW(model.localizer.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS, pct_start=0.1)
    for step in range(STEPS):
        index = torch.arange(BATCH) + BATCH * step
        images = lying(comets(BATCH, generator), seed=1, index=index)
        first, second = draw_pose_pairs(primitives, 2, 0, index)
        before, after = (model.localize(warp(images, pose.matrix, inverse=True)) for pose in (first, second))
        loss = torch.stack(list(relative_alignment(before, after, first, second).values())).sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.localizer.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


def lying(images: torch.Tensor, seed: int, index: torch.Tensor) -> torch.Tensor:
    """Each image at an angle of its own that nobody is told."""
    return warp(images, draw_poses(("rotation",), seed, 0, index).matrix, inverse=True)


@torch.no_grad()
def test_the_pose_follows_a_turn(trained):
    index = torch.arange(128)
    images = lying(comets(128, torch.Generator().manual_seed(1)), seed=3, index=index)
    turn = draw_poses(("rotation",), 4, 0, index)
    before, after = (trained.localize(x)["rotation"] for x in (images, warp(images, turn.matrix, inverse=True)))
    error = wrap_angle(after.best() - before.best() - turn.rotation).abs()
    assert error.median() < math.radians(15)
    assert (error > math.radians(30)).float().mean() < 0.1
    assert before.entropy().median() < 0.8  # and it is sure of it
    following = after.log_prob(wrap_angle(before.best() + turn.rotation))
    assert following.mean() > -math.log(2 * math.pi) + 0.5  # half a nat more than not knowing


@torch.no_grad()
def test_the_scale_follows_a_zoom(trained):
    images = lying(comets(128, torch.Generator().manual_seed(1)), seed=3, index=torch.arange(128))
    sizes = [trained.localize(warp(images, Pose.of(scale=s).matrix, inverse=True))["scale"].best() for s in (0.8, 1.2)]
    ratio = torch.log(sizes[1] / sizes[0])
    assert abs(ratio.median() - math.log(1.5)) < 0.1


@torch.no_grad()
def test_rectified_comets_all_point_the_same_way(trained):
    upright = comets(128, torch.Generator().manual_seed(5))
    own = draw_poses(("rotation",), 6, 0, torch.arange(128))
    found = trained.localize(warp(upright, own.matrix, inverse=True))["rotation"].best()
    left = wrap_angle(found - own.rotation)  # one and the same unknown angle for all
    centre = torch.atan2(torch.sin(left).mean(), torch.cos(left).mean())
    assert wrap_angle(left - centre).abs().median() < math.radians(15)


@pytest.mark.parametrize("primitives", [("translation",), ("shear", "reflection"), ("rotation", "shear")])
def test_primitives_that_cannot_be_learned_from_images_that_are_not_upright_are_refused(primitives):
    model = fresh(primitives=primitives)
    with pytest.raises(ValueError, match=r"only rotation and scale can.*--upright yes"):
        RectifierTraining(model, DEFAULT, PREPARED, seed=0, upright=False)
    RectifierTraining(model, DEFAULT, PREPARED, seed=0, upright=True)
    by_labels = replace(DEFAULT, alignment=0.0, classification=1.0)
    RectifierTraining(model, by_labels, PREPARED, seed=0, upright=False)


def test_what_is_refused_is_named_and_what_can_be_learned_is_not():
    with pytest.raises(ValueError, match=r"^shear and translation cannot be learned"):
        RectifierTraining(
            fresh(primitives=("rotation", "shear", "translation")), DEFAULT, PREPARED, seed=0, upright=False
        )
    RectifierTraining(fresh(primitives=("rotation", "scale")), DEFAULT, PREPARED, seed=0, upright=False)
