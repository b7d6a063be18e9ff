"""A collapsed rectifier is recognised, a living one is not accused."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from tokenstn.evaluation.collapse import collapse_report
from tokenstn.geometry import Rotation, wrap_angle
from tokenstn.training import draw_poses

INDEX = np.arange(2000)
NOISE = torch.randn(2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def turns(*primitives) -> dict[str, torch.Tensor]:
    pose = draw_poses(primitives or ("rotation", "scale"), 0, 0, INDEX)
    return {"rotation": pose.rotation.double(), "scale": pose.scale.double()}


def test_a_faithful_rectifier_is_alive():
    applied = turns()
    before = {"rotation": 0.05 * NOISE, "scale": torch.exp(0.02 * NOISE)}
    after = {
        "rotation": wrap_angle(applied["rotation"] + 0.1 * NOISE.flip(0)),
        "scale": applied["scale"] * torch.exp(0.02 * NOISE.flip(0)),
    }
    report = collapse_report(("rotation", "scale"), before, (applied, after))
    rotation, scale = report["rotation"], report["scale"]
    assert not rotation.collapsed and not scale.collapsed and "alive" in rotation.sentence
    assert rotation.spread == pytest.approx(0.05, rel=0.1) and scale.spread == pytest.approx(0.02, rel=0.1)
    assert rotation.from_identity == pytest.approx(0.05 * math.sqrt(2 / math.pi), rel=0.1)  # mean of |noise|
    errors = wrap_angle(after["rotation"] - before["rotation"] - applied["rotation"]).abs()
    assert rotation.equivariance_error == pytest.approx(errors.median().item())
    assert rotation.equivariance_failures == pytest.approx((errors > math.radians(30)).double().mean().item())
    assert scale.equivariance_error < 0.03 and scale.equivariance_failures < 0.01


def test_one_answer_for_every_image_is_a_collapse():
    applied = turns()
    same = {"rotation": 1.0 + 0.005 * NOISE, "scale": torch.ones(2000)}
    report = collapse_report(("rotation", "scale"), same, (applied, same))
    assert report["rotation"].collapsed and report["scale"].collapsed
    assert "spread over 0.3°" in report["rotation"].sentence and "103.9°" in report["rotation"].sentence
    assert report["rotation"].equivariance_error == pytest.approx(math.pi / 2, rel=0.1)  # any other turn is as near


def test_upright_images_that_are_all_alike_are_no_collapse():
    report = collapse_report(("rotation",), {"rotation": 0.001 * NOISE})
    assert not report["rotation"].collapsed and report["rotation"].equivariance_error is None


def test_predictions_at_the_end_of_the_range_are_a_collapse():
    scale = torch.full((10,), 0.7505)
    report = collapse_report(
        ("scale", "translation"), {"scale": scale, "translation": torch.tensor([[0.125, 0.0]] * 10)}
    )
    assert report["scale"].at_bound == 1 and report["scale"].collapsed and "100%" in report["scale"].sentence
    assert report["translation"].at_bound == 1 and report["translation"].collapsed
    assert collapse_report(("scale",), {"scale": torch.full((10,), 0.76)})["scale"].at_bound == 0


def test_a_reflection_is_always_at_its_bound_and_no_collapse():
    health = collapse_report(("reflection",), {"reflection": torch.ones(10)})["reflection"]
    assert health.at_bound == 1 and not health.collapsed and health.from_identity == 0


def test_spread_is_circular():
    angles = wrap_angle(math.pi + 0.2 * NOISE)  # across the seam
    health = collapse_report(("rotation",), {"rotation": angles})["rotation"]
    assert health.spread == pytest.approx(stats.circstd(angles.numpy()), rel=1e-6)
    even = torch.arange(36) * math.radians(10)
    assert collapse_report(("rotation",), {"rotation": even})["rotation"].spread == pytest.approx(
        math.pi / math.sqrt(3)
    )


def test_a_mirrored_object_turns_the_other_way():
    applied = {"rotation": turns()["rotation"]}
    before = {"rotation": 0.1 * NOISE, "reflection": torch.where(NOISE > 0, 1.0, -1.0)}
    after = {"rotation": wrap_angle(before["rotation"] + before["reflection"] * applied["rotation"])}
    report = collapse_report(("rotation", "reflection"), before, (applied, after))
    assert report["rotation"].equivariance_error < 1e-6


def test_a_bounded_rotation_may_stop_at_its_bound():
    move = torch.full((10,), 0.4)
    before, after = torch.full((10,), 0.3), torch.full((10,), 0.5)
    report = collapse_report((Rotation(0.5),), {"rotation": before}, ({"rotation": move}, {"rotation": after}))
    assert report["rotation"].equivariance_error == pytest.approx(0, abs=1e-6)


def test_half_a_turn_is_an_angle_like_any_other_until_moved_images_stay_there():
    upside_down = {"rotation": wrap_angle(math.pi + 0.005 * NOISE)}
    assert not collapse_report(("rotation",), upside_down)["rotation"].collapsed
    assert collapse_report(("rotation",), upside_down, (turns(), upside_down))["rotation"].collapsed


def test_images_that_were_turned_upside_down_are_rightly_found_there():
    applied = {"rotation": torch.full((2000,), math.pi, dtype=torch.float64)}
    before, after = {"rotation": 0.001 * NOISE}, {"rotation": wrap_angle(math.pi + 0.001 * NOISE)}
    report = collapse_report(("rotation",), before, (applied, after))["rotation"]
    assert not report.collapsed and report.at_bound > 0.9 and report.equivariance_failures == 0
