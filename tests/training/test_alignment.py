"""Alignment with known poses, against brute force and by hand."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tokenstn.geometry import Pose, Reflection, Rotation, Scale, Translation, wrap_angle
from tokenstn.posteriors import POSTERIORS, Circular, Gaussian, Point
from tokenstn.training import absolute_alignment, draw_poses, relative_alignment, variance_preserving
from tokenstn.training.recipes import DEFAULT
from tokenstn.training.rectifier_training import RectifierTraining

from .test_engine import PREPARED, fresh

STEP = math.radians(10)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ring(raw: Tensor, bound: float = math.pi) -> Circular:
    return Circular(Rotation(bound), raw)


def test_absolute_is_the_mean_of_minus_log_density():
    rotation, scale = ring(noise(5, 36)), Gaussian(Scale(), noise(5, 2, seed=1))
    pose = Pose.of(rotation=noise(5, seed=2), scale=torch.exp(0.1 * noise(5, seed=3)))
    losses = absolute_alignment({"rotation": rotation, "scale": scale}, pose)
    assert list(losses) == ["rotation", "scale"]
    # the density of the ring by hand: probabilities, linear between the bins
    p = np.exp(rotation.raw.numpy())
    p = p / p.sum(1, keepdims=True)
    circle = np.arange(37) * STEP
    density = [
        np.interp(a % (2 * math.pi), circle, np.append(row, row[0])) / STEP
        for row, a in zip(p, pose.rotation.tolist(), strict=True)
    ]
    assert losses["rotation"].item() == pytest.approx(-np.log(density).mean())
    torch.testing.assert_close(losses["scale"], -scale.log_prob(pose.scale).mean())


def test_absolute_takes_every_primitive_of_every_family():
    for family in POSTERIORS.values():
        kinds = (Rotation(),) if family is Circular else (Rotation(), Scale(), Translation(), Reflection())
        beliefs = {kind.name: family(kind, noise(4, family.outputs(kind)).float()) for kind in kinds}
        losses = absolute_alignment(beliefs, Pose.of(rotation=torch.zeros(4)))
        assert set(losses) == set(beliefs) and all(loss.isfinite() and loss.ndim == 0 for loss in losses.values())


def test_absolute_is_a_proper_score():
    """Angles from a known density: no blunter and no sharper belief scores better than the density itself."""
    truth = 2 * torch.cos(ring(noise(1, 36)).angles).unsqueeze(0)
    angles = ring(truth).sample(20_000, torch.Generator().manual_seed(0))[0]

    def score(logits: Tensor) -> float:
        losses = absolute_alignment({"rotation": ring(logits.expand(len(angles), -1))}, Pose.of(rotation=angles))
        return losses["rotation"].item()

    assert score(truth) < min(score(0.8 * truth), score(1.25 * truth), score(truth.roll(1, -1)))


def test_a_mirrored_object_turns_the_other_way():
    raw = 5 * noise(30, 36)
    mirrored = Gaussian(Reflection(), torch.tensor([[-2.0, 0.0]]).double().expand(30, -1))
    poses = Pose.of(rotation=torch.zeros(30).double()), Pose.of(rotation=torch.full((30,), 4 * STEP).double())
    forward, backward = ring(raw.roll(4, -1)), ring(raw.roll(-4, -1))

    def loss(after: Circular, **others: Gaussian) -> float:
        beliefs = [{"rotation": belief, **others} for belief in (ring(raw), after)]
        return relative_alignment(*beliefs, *poses)["rotation"].item()

    assert loss(forward) + 5 < loss(backward)
    assert loss(backward, reflection=mirrored) + 5 < loss(forward, reflection=mirrored)


def test_relative_looks_at_rotation_and_scale_only():
    beliefs = {
        "rotation": ring(noise(2, 36)),
        "scale": Gaussian(Scale(), noise(2, 2)),
        "translation": Gaussian(Translation(), noise(2, 4)),
    }
    pose = Pose.of(rotation=torch.zeros(2).double())
    assert set(relative_alignment(beliefs, beliefs, pose, pose)) == {"rotation", "scale"}
    assert relative_alignment({}, {}, pose, pose) == {}


def test_relative_scale_is_least_squares_of_the_log_ratio():
    first, second = Point(Scale(0.5), noise(3, 1)), Point(Scale(0.5), noise(3, 1, seed=1))
    zoom = torch.tensor([0.8, 1.0, 1.25]).double()
    loss = relative_alignment({"scale": first}, {"scale": second}, Pose.of(scale=zoom * 0 + 0.9), Pose.of(scale=zoom))
    error = torch.log(second.best() / first.best()) - torch.log(zoom / 0.9)
    by_hand = 0.5 * (error / (0.2 * math.log(4))) ** 2  # a fifth of the range of ln s
    torch.testing.assert_close(loss["scale"], by_hand.mean())


def test_a_gaussian_learns_its_centre_by_least_squares_and_its_width_by_likelihood():
    zoom = Pose.of(scale=torch.tensor([1.1], dtype=torch.float64))
    raws = [torch.tensor([[u, 0.2]], dtype=torch.float64, requires_grad=True) for u in (-0.1, 0.2)]
    beliefs = [Gaussian(Scale(), raw) for raw in raws]
    same = Pose.of(scale=torch.ones(1).double())
    relative_alignment({"scale": beliefs[0]}, {"scale": beliefs[1]}, same, zoom)["scale"].backward()
    # by hand: ln s = λ tanh u, and a Gaussian whose width in ln s is that of s over s
    free = [raw.detach().clone().requires_grad_() for raw in raws]
    a, b = (Gaussian(Scale(), raw) for raw in free)
    error = -math.log(0.75) * (torch.tanh(free[1][0, 0]) - torch.tanh(free[0][0, 0])) - math.log(1.1)
    width = torch.sqrt((a.spread() / a.best()) ** 2 + (b.spread() / b.best()) ** 2)
    likelihood = -torch.distributions.Normal(torch.zeros(1).double(), width).log_prob(error.detach())
    (0.5 * (error / (0.2 * 2 * -math.log(0.75))) ** 2 + likelihood).sum().backward()
    for ours, theirs in zip(raws, free, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_relative_rotation_of_a_point_has_no_seam():
    first, second = (Point(Rotation(), torch.tensor([[u]]).double()) for u in (2.0, -2.0))
    gap = wrap_angle(second.best() - first.best())  # a small step across ±π
    poses = Pose.of(rotation=torch.zeros(1).double()), Pose.of(rotation=gap)
    loss = relative_alignment({"rotation": first}, {"rotation": second}, *poses)["rotation"]
    assert abs(gap) < 0.5 and loss.item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("family", ["circular", "gaussian", "student", "point"])
def test_gradients(family):
    kind = POSTERIORS[family]
    pose, other = Pose.of(rotation=noise(3, seed=5)), Pose.of(rotation=noise(3, seed=6))
    raws = [noise(3, kind.outputs(Rotation()), seed=s).mul(0.3).requires_grad_() for s in (7, 8)]

    def total(first: Tensor, second: Tensor) -> Tensor:
        a, b = {"rotation": kind(Rotation(), first)}, {"rotation": kind(Rotation(), second)}
        loss = absolute_alignment(a, pose)["rotation"] + variance_preserving(b, other, share=2.0)
        # widths and sharpness see the rest as given, so only a point's relative loss has the gradient of its value
        return loss + relative_alignment(a, b, pose, other)["rotation"] if family == "point" else loss

    assert torch.autograd.gradcheck(total, raws)


def test_variance_is_preserved_above_a_share_of_the_applied():
    pose = Pose.of(rotation=torch.linspace(-3, 3, 50).double(), scale=torch.linspace(0.8, 1.25, 50).double())
    faithful = {
        "rotation": ring(40 * torch.cos(ring(noise(50, 36)).angles - pose.rotation.unsqueeze(-1))),
        "scale": Point(Scale(), Scale().unsquash(pose.scale).unsqueeze(-1)),
    }
    assert variance_preserving(faithful, pose) == 0
    stuck = {"rotation": ring(noise(1, 36).expand(50, -1)), "scale": Point(Scale(), torch.zeros(50, 1).double())}
    assert variance_preserving(stuck, pose).item() == pytest.approx(2 * 0.5, abs=0.03)
    half = {"scale": Point(Scale(), Scale().unsquash(pose.scale.sqrt()).unsqueeze(-1))}  # half the deviation of ln s
    assert variance_preserving(half, pose, share=0.8).item() == pytest.approx(0.3, abs=1e-3)


def test_variance_term_spreads_what_has_nearly_collapsed():
    raw = (0.01 * noise(32, 36)).requires_grad_()
    pose = Pose.of(rotation=noise(32, seed=1) * 2)
    optimizer = torch.optim.SGD([raw], lr=30.0)
    start = variance_preserving({"rotation": ring(raw)}, pose).item()
    for _ in range(200):
        optimizer.zero_grad()
        variance_preserving({"rotation": ring(raw)}, pose).backward()
        optimizer.step()
    assert start > 0.4 and variance_preserving({"rotation": ring(raw)}, pose) < 0.02


def test_variance_term_is_silent_where_nothing_was_applied():
    raw = torch.zeros(4, 1, requires_grad=True)
    loss = variance_preserving({"scale": Point(Scale(), raw)}, Pose.of(rotation=torch.zeros(4)))
    loss.backward()
    assert loss == 0 and raw.grad.isfinite().all()
    assert variance_preserving({}, Pose.of(rotation=torch.zeros(4))) == 0


@pytest.mark.parametrize("degrees", [30, 45, 57.3, 119])
def test_a_bounded_ring_is_trained_with_angles_that_it_can_reach(degrees):
    rotation = Rotation(bound=math.radians(degrees))
    training = RectifierTraining(fresh(primitives=(rotation,)), DEFAULT, PREPARED, seed=0)
    drawn = draw_poses(training.moves, 0, 0, np.arange(1000))
    raw = Circular.initial(rotation).expand(1000, 36).clone().requires_grad_()
    loss = absolute_alignment({"rotation": Circular(rotation, raw)}, drawn)["rotation"]
    loss.backward()
    assert loss.item() < 3 and raw.grad is not None and abs(raw.grad.sum().item()) < 1e-5
    assert drawn.rotation.abs().max() > 0.75 * rotation.bound
