"""The joint belief: a product of independent marginals."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenstn.geometry import Reflection, Rotation, Scale, Shear, Translation
from tokenstn.posteriors import Circular, Gaussian, Point, Student, best_pose, most_probable_poses, random_poses

PARTS = {
    "rotation": (Circular, Rotation()),
    "scale": (Gaussian, Scale()),
    "shear": (Student, Shear()),
    "translation": (Gaussian, Translation()),
    "reflection": (Gaussian, Reflection()),
}
IDENTITY = {"rotation": 0.0, "scale": 1.0, "stretch": 1.0, "shear": 0.0, "translation": 0.0, "reflection": 1.0}
fast = settings(max_examples=25, deadline=None)


def beliefs(*names, seed=0, batch=3):
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for name in names:
        family, primitive = PARTS[name]
        raw = torch.randn(batch, family.outputs(primitive), generator=generator, dtype=torch.float64)
        if name == "reflection":  # both sides likely, so that masses differ
            raw = 0.3 * raw + torch.tensor([0.0, 0.5])
        made[name] = family(primitive, raw)
    return made


def brute_force(posteriors, row, n):
    """The best combination, then the others by falling mass, of the whole product for one image."""
    every = [posterior.candidates(1000) for posterior in posteriors.values()]
    combinations = itertools.product(*(range(c.masses.shape[1]) for c in every))
    scored = []
    for places in combinations:
        mass = 1.0
        for c, k in zip(every, places, strict=True):
            mass *= c.masses[row, k].item()
        values = {name: c.values[row, k] for name, c, k in zip(posteriors, every, places, strict=True)}
        scored.append((mass, values))
    return [scored[0], *sorted(scored[1:], key=lambda pair: -pair[0])][:n]


@pytest.mark.parametrize("names", [("rotation", "scale", "reflection"), ("reflection", "rotation"), tuple(PARTS)])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_most_probable_poses_are_those_of_the_whole_product(names, n):
    posteriors = beliefs(*names)
    pose, masses = most_probable_poses(posteriors, n)
    assert pose.rotation.shape == masses.shape == (3, n)
    for row in range(3):
        for v, (mass, values) in enumerate(brute_force(posteriors, row, n)):
            assert masses[row, v].item() == pytest.approx(mass)
            for name, value in values.items():
                torch.testing.assert_close(getattr(pose, name)[row, v], value)


@given(st.integers(0, 1000), st.integers(1, 80))
@fast
def test_the_best_pose_comes_first_and_masses_never_exceed_one(seed, n):
    posteriors = beliefs(*PARTS, seed=seed)
    pose, masses = most_probable_poses(posteriors, n)
    torch.testing.assert_close(pose.matrix[:, 0], best_pose(posteriors).matrix)
    assert bool((masses >= 0).all() and (masses.sum(1) <= 1 + 1e-9).all())
    assert bool((masses[:, 1:].diff() <= 0).all())


@given(st.integers(0, 1000))
@fast
def test_a_reflection_doubles_the_poses(seed):
    assert most_probable_poses(beliefs("rotation", seed=seed), 100)[1].shape == (3, 36)
    pose, masses = most_probable_poses(beliefs("rotation", "reflection", seed=seed), 100)
    assert masses.shape == (3, 72)
    torch.testing.assert_close(masses.sum(1), torch.ones(3, dtype=torch.float64))
    assert (pose.reflection == 1).sum(1).tolist() == (pose.reflection == -1).sum(1).tolist() == [36] * 3


def test_only_continuous_beliefs_give_one_pose_which_carries_all():
    pose, masses = most_probable_poses(beliefs("scale", "shear", "translation"), 10)
    assert masses.tolist() == [[1.0]] * 3 and pose.matrix.shape == (3, 1, 3, 3)


def test_the_masses_reach_the_logits():
    posteriors = beliefs("rotation", "reflection")
    raws = [p.raw.requires_grad_() for p in posteriors.values()]
    remade = {name: type(p)(p.primitive, p.raw) for name, p in posteriors.items()}
    for slope in torch.autograd.grad(most_probable_poses(remade, 4)[1].sum(), raws):
        assert bool((slope != 0).any())


def test_more_poses_include_the_fewer_even_where_masses_are_equal():
    fresh = {name: f(p, f.initial(p).unsqueeze(0)) for name, (f, p) in PARTS.items()}
    every, masses = most_probable_poses(fresh, 72)
    for n in (1, 2, 3, 5, 10):
        fewer, some = most_probable_poses(fresh, n)
        torch.testing.assert_close(fewer.matrix, every.matrix[:, :n])
        torch.testing.assert_close(some, masses[:, :n])


@pytest.mark.parametrize("left_out", PARTS)
def test_what_is_left_out_is_exactly_the_identity(left_out):
    posteriors = beliefs(*(name for name in PARTS if name != left_out))
    drawn, _ = random_poses(posteriors, 3, torch.Generator().manual_seed(0))
    for pose in (best_pose(posteriors), most_probable_poses(posteriors, 5)[0], drawn):
        for name in (left_out, "stretch"):
            assert bool((getattr(pose, name) == IDENTITY[name]).all())
        for name in posteriors:
            assert bool((getattr(pose, name) != IDENTITY[name]).any())


def test_random_poses_weigh_the_same_and_follow_the_generator():
    posteriors = beliefs(*PARTS)
    pose, weights = random_poses(posteriors, 8, torch.Generator().manual_seed(1))
    assert pose.matrix.shape == (3, 8, 3, 3)
    torch.testing.assert_close(weights, torch.full((3, 8), 1 / 8, dtype=torch.float64))
    again, _ = random_poses(posteriors, 8, torch.Generator().manual_seed(1))
    other, _ = random_poses(posteriors, 8, torch.Generator().manual_seed(2))
    assert torch.equal(pose.matrix, again.matrix) and not torch.equal(pose.matrix, other.matrix)


def test_random_poses_are_drawn_independently():
    posteriors = {"scale": Gaussian(Scale(), torch.zeros(1, 2)), "shear": Gaussian(Shear(), torch.zeros(1, 2))}
    pose, _ = random_poses(posteriors, 4000, torch.Generator().manual_seed(3))
    together = torch.corrcoef(torch.cat((pose.scale.log(), pose.shear)))[0, 1]
    assert together.abs() < 0.06  # four standard errors of an uncorrelated pair


def test_a_point_belief_gives_its_own_pose_again_and_again():
    posteriors = {"rotation": Point(Rotation(), torch.tensor([[0.2]])), "scale": Point(Scale(), torch.tensor([[0.5]]))}
    expected = best_pose(posteriors).matrix
    torch.testing.assert_close(random_poses(posteriors, 3)[0].matrix, expected.unsqueeze(1).expand(1, 3, 3, 3))
