"""Random poses are uniform, independent, and a function of the image alone."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tokenstn.geometry import OneSidedScale, Primitive, Rotation, Scale, Shear, wrap_angle
from tokenstn.training import draw_pose_pairs, draw_poses
from tokenstn.training.poses import uniform

ALL = ("rotation", "scale", "shear", "translation", "reflection")
MANY = np.arange(20_000)


def columns(seed: int = 0, epoch: int = 0, index: np.ndarray = MANY) -> dict[str, np.ndarray]:
    """Every continuous component of a draw, mapped to [0, 1]."""
    pose = draw_poses(ALL, seed, epoch, index)
    return {
        "rotation": (pose.rotation.numpy() / math.pi + 1) / 2,
        "scale": (np.log(pose.scale.numpy()) / -math.log(0.75) + 1) / 2,
        "shear": (pose.shear.numpy() / (math.pi / 4) + 1) / 2,
        "x": (pose.translation[:, 0].numpy() * 8 + 1) / 2,
        "y": (pose.translation[:, 1].numpy() * 8 + 1) / 2,
    }


@pytest.mark.parametrize("name", ["rotation", "scale", "shear", "x", "y"])
def test_each_component_is_uniform_over_its_range(name):
    assert stats.kstest(columns()[name], "uniform").pvalue > 1e-3
    assert (
        stats.kstest(columns(index=MANY * 4096)[name], "uniform").pvalue > 1e-3
    )  # strided, as in a data set of groups


def test_one_image_over_many_epochs_and_seeds_is_uniform():
    over_epochs = np.array([uniform([5], 0, epoch)[0] for epoch in range(3000)])
    over_seeds = np.array([uniform([5], seed, 0)[0] for seed in range(3000)])
    assert stats.kstest(over_epochs, "uniform").pvalue > 1e-3 and stats.kstest(over_seeds, "uniform").pvalue > 1e-3


def test_components_epochs_seeds_and_neighbours_are_independent():
    base = columns()
    others = [
        *base.values(),
        base["rotation"][np.r_[1 : len(MANY), 0]],
        columns(epoch=1)["rotation"],
        columns(seed=1)["rotation"],
        columns(seed=1)["scale"],
    ]
    correlation = np.corrcoef(others) - np.eye(len(others))
    assert np.abs(correlation).max() < 5 / math.sqrt(len(MANY))
    for other in others[1:]:  # beyond correlation: the joint distribution is flat on a 10 × 10 table
        table = np.histogram2d(base["rotation"], other, bins=10, range=[[0, 1], [0, 1]])[0]
        assert stats.chisquare(table.ravel()).pvalue > 1e-4


def test_reflections_are_fair_and_independent_of_the_angle():
    pose = draw_poses(ALL, 0, 0, MANY)
    assert set(pose.reflection.tolist()) == {-1.0, 1.0}
    assert abs(pose.reflection.mean()) < 0.03
    assert abs(np.corrcoef(pose.reflection, pose.rotation)[0, 1]) < 0.03


@given(st.permutations(range(12)), st.integers(0, 2**40), st.integers(0, 1000))
def test_an_image_gets_its_pose_whatever_the_batch(order, seed, epoch):
    together = draw_poses(ALL, seed, epoch, torch.arange(12))
    shuffled = draw_poses(ALL, seed, epoch, torch.tensor(order))
    alone = draw_poses(("shear", Rotation(1.0)), seed, epoch, [order[3]])
    for name in ALL:
        assert torch.equal(getattr(shuffled, name), getattr(together, name)[list(order)])
    assert alone.shear[0] == together.shear[order[3]]  # whichever other primitives there are
    torch.testing.assert_close(alone.rotation[0] * math.pi, together.rotation[order[3]], rtol=1e-5, atol=1e-6)


def test_the_numbers_stay_what_they_were():
    """A checkpoint is resumed with the poses it would have had: the hash is part of the format."""
    expected = torch.tensor([1.2288345098495483])
    torch.testing.assert_close(draw_poses(("rotation",), 1, 2, [3]).rotation, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("primitive", [Rotation(0.5), Scale(0.5), OneSidedScale(0.6), Shear(0.1)])
def test_values_fill_the_range_of_the_primitive_and_stay_inside(primitive: Primitive):
    values = getattr(draw_poses((primitive,), 0, 0, MANY), primitive.name)
    low, high = primitive.range
    assert low <= values.min() < low + 0.01 * (high - low) and high - 0.01 * (high - low) < values.max() <= high


def test_what_is_switched_off_is_the_identity_and_all_is_fp32_on_the_cpu():
    pose = draw_poses((), 0, 0, [1, 2, 3])
    torch.testing.assert_close(pose.matrix, torch.eye(3).expand(3, 3, 3))
    pose = draw_poses(ALL, 0, 0, [1, 2, 3])
    assert all(v.dtype == torch.float32 and v.device.type == "cpu" and len(v) == 3 for v in vars(pose).values())


def test_negative_and_huge_seeds_are_taken():
    values = {draw_poses(("rotation",), seed, 0, [0]).rotation.item() for seed in (-1, 2**64, 2**64 + 1, 0, 7)}
    assert len(values) >= 4


def test_pairs_are_whole_bins_apart_and_move_rotation_and_scale_only():
    first, second = draw_pose_pairs(ALL, 0, 0, MANY)
    bins = torch.rad2deg(wrap_angle(second.rotation - first.rotation)) / 10
    assert (bins - bins.round()).abs().max() < 1e-4
    counts = torch.bincount(bins.round().long() % 36, minlength=36).numpy()
    assert stats.chisquare(counts).pvalue > 1e-3
    assert first.rotation.equal(draw_poses(("rotation",), 0, 0, MANY).rotation)
    assert abs(np.corrcoef(first.scale, second.scale)[0, 1]) < 0.03
    assert abs(np.corrcoef(first.rotation, second.rotation)[0, 1]) < 0.03
    for pose in (first, second):
        assert (pose.shear == 0).all() and (pose.translation == 0).all() and (pose.reflection == 1).all()


def test_pairs_stay_inside_a_bound():
    first, second = draw_pose_pairs((Rotation(0.5),), 0, 0, MANY)
    assert max(first.rotation.abs().max(), second.rotation.abs().max()) <= 0.5
    assert (first.scale == 1).all() and (first.rotation != second.rotation).all()
