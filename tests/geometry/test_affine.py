"""Poses and matrices: one decomposition, both ways, and what acting on the input does to the pose."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tokenstn.geometry import Pose, compose, decompose, invert, wrap_angle

EXACT = 1e-9  # what double precision leaves over the admissible range, with room for a badly conditioned shear
SHAPES = st.sampled_from([(), (1,), (4,), (2, 3), (2, 1, 2), (0,)])
angles = st.floats(-math.pi, math.pi)
shifts = st.tuples(st.floats(-2, 2), st.floats(-2, 2))
fast = settings(max_examples=40, deadline=None)


def arrays(shape, low, high):
    return hnp.arrays("float64", shape, elements=st.floats(low, high)).map(torch.from_numpy)


@st.composite
def poses(draw, shape=None, isotropic=False):
    shape = draw(SHAPES) if shape is None else shape
    return Pose(
        rotation=draw(arrays(shape, -math.pi, math.pi)),
        scale=draw(arrays(shape, 0.05, 20)),
        stretch=torch.ones(shape, dtype=torch.float64) if isotropic else draw(arrays(shape, 0.05, 20)),
        shear=draw(arrays(shape, -math.pi, math.pi)),
        translation=draw(arrays((*shape, 2), -4, 4)),
        reflection=1 - 2 * (draw(arrays(shape, 0, 1)) > 0.5).double(),
    )


def assert_same_pose(found, expected):
    assert found.rotation.shape == expected.rotation.shape
    turn = wrap_angle(found.rotation - expected.rotation)
    torch.testing.assert_close(turn, torch.zeros_like(turn), rtol=0, atol=EXACT)
    for name in ("scale", "stretch", "shear", "translation", "reflection"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=EXACT, atol=EXACT)


def turn(angle):
    return Pose.of(rotation=torch.tensor(angle, dtype=torch.float64)).matrix


def rotated(angle, translation):
    return (turn(angle)[:2, :2] @ translation.unsqueeze(-1)).squeeze(-1)


@given(poses())
@fast
def test_decomposing_a_composed_pose_gives_it_back(pose):
    assert_same_pose(decompose(compose(pose)), pose)


@given(arrays((2, 3), -3, 3), st.booleans())
@fast
def test_composing_a_decomposed_matrix_gives_it_back(top, batched):
    assume((top[0, 0] * top[1, 1] - top[0, 1] * top[1, 0]).abs() > 0.05)
    matrix = torch.cat((top, torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)))
    matrix = matrix.expand(2, 3, 3, 3) if batched else matrix
    torch.testing.assert_close(compose(decompose(matrix)), matrix, rtol=EXACT, atol=EXACT)


@given(poses())
@fast
def test_a_decomposed_pose_is_canonical(pose):
    found = decompose(compose(pose))
    assert bool(((found.rotation > -math.pi - 1e-12) & (found.rotation <= math.pi)).all())
    assert bool((found.scale > 0).all() and (found.stretch > 0).all() and (found.reflection.abs() == 1).all())


@given(poses())
@fast
def test_the_matrix_is_the_product_of_its_factors(pose):
    def factor(a, b, c, d, tx=0.0, ty=0.0):
        entries = (a, b, tx, c, d, ty, 0.0, 0.0, 1.0)
        entries = torch.broadcast_tensors(*(torch.as_tensor(e, dtype=torch.float64) for e in entries), pose.scale)
        return torch.stack(entries[:9], -1).unflatten(-1, (3, 3))

    cos, sin = pose.rotation.cos(), pose.rotation.sin()
    factors = (
        factor(1, 0, 0, 1, *pose.translation.unbind(-1)),
        factor(1, 0, 0, pose.reflection),
        factor(cos, -sin, sin, cos),
        factor(1, pose.shear, 0, 1),
        factor(pose.scale, 0, 0, pose.scale * pose.stretch),
    )
    product = factors[0] @ factors[1] @ factors[2] @ factors[3] @ factors[4]
    torch.testing.assert_close(compose(pose), product, rtol=EXACT, atol=EXACT)


@given(poses(shape=(3,)), angles)
@fast
def test_turning_the_input_adds_to_the_angle(pose, angle):
    expected = Pose(
        pose.rotation + pose.reflection * angle,
        pose.scale,
        pose.stretch,
        pose.shear,
        rotated(angle, pose.translation),
        pose.reflection,
    )
    assert_same_pose(decompose(turn(angle) @ compose(pose)), expected)


@given(poses(shape=(3,)))
@fast
def test_mirroring_the_input_up_down_flips_only_the_reflection_and_the_height(pose):
    mirror = torch.diag(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))
    shift = pose.translation * torch.tensor([1.0, -1.0])
    expected = Pose(pose.rotation, pose.scale, pose.stretch, pose.shear, shift, -pose.reflection)
    assert_same_pose(decompose(mirror @ compose(pose)), expected)


@given(poses(shape=(3,)))
@fast
def test_mirroring_the_input_left_right_also_turns_it_by_half(pose):
    mirror = torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64))
    shift = pose.translation * torch.tensor([-1.0, 1.0])
    expected = Pose(pose.rotation + math.pi, pose.scale, pose.stretch, pose.shear, shift, -pose.reflection)
    assert_same_pose(decompose(mirror @ compose(pose)), expected)


@given(poses(shape=(3,)), shifts)
@fast
def test_shifting_the_input_adds_to_the_translation(pose, shift):
    shift = torch.tensor(shift, dtype=torch.float64)
    moved = pose.translation + shift
    expected = Pose(pose.rotation, pose.scale, pose.stretch, pose.shear, moved, pose.reflection)
    assert_same_pose(decompose(Pose.of(translation=shift).matrix @ compose(pose)), expected)


@given(poses(shape=(3,)), st.floats(0.2, 5))
@fast
def test_zooming_the_input_multiplies_scale_and_translation(pose, zoom):
    zoomed = Pose.of(scale=torch.tensor(zoom, dtype=torch.float64)).matrix
    shift = zoom * pose.translation
    expected = Pose(pose.rotation, zoom * pose.scale, pose.stretch, pose.shear, shift, pose.reflection)
    assert_same_pose(decompose(zoomed @ compose(pose)), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_left_right_mirror_is_a_reflection_and_half_a_turn(dtype):
    pose = decompose(torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=dtype)))
    assert pose.reflection == -1
    assert pose.rotation == torch.tensor(math.pi, dtype=dtype)  # +π: the range of angles leaves −π out


@given(poses())
@fast
def test_the_inverse_undoes_the_matrix(pose):
    matrix = compose(pose)
    identity = torch.eye(3, dtype=torch.float64).expand_as(matrix)
    # the entries of the inverse reach 1 / 0.05² times π, so compare the product, on the scale of its terms
    allowed = EXACT * (1 + matrix.abs().amax() * invert(matrix).abs().amax() if matrix.numel() else 1)
    torch.testing.assert_close(invert(matrix) @ matrix, identity, rtol=0, atol=float(allowed))


def test_inverting_agrees_with_linear_algebra():
    matrix = Pose.of(torch.tensor([0.3, -2.0]).double(), 1.5, 0.7, 0.4, (0.2, -0.1), -1.0).matrix
    torch.testing.assert_close(invert(matrix), torch.linalg.inv(matrix))


@given(arrays((5,), -50, 50))
@fast
def test_a_wrapped_angle_is_the_same_angle_in_range(angle):
    wrapped = wrap_angle(angle)
    assert bool(((wrapped >= -math.pi) & (wrapped < math.pi)).all())
    whole_turns = (angle - wrapped) / (2 * math.pi)
    torch.testing.assert_close(whole_turns, whole_turns.round(), rtol=0, atol=EXACT)


def test_a_pose_is_filled_in_broadcast_and_indexed():
    pose = Pose.of(rotation=torch.zeros(4, 1).double(), translation=torch.ones(3, 2).double(), reflection=-1.0)
    assert pose.matrix.shape == (4, 3, 3, 3) and pose.matrix.dtype == torch.float64
    assert pose[1].rotation.shape == (3,) and pose[1].translation.shape == (3, 2)
    torch.testing.assert_close(pose[1].matrix, pose.matrix[1])


def test_a_pose_belongs_to_its_caller():
    """What is filled in comes from constants that all calls share."""
    for number in (1, 4):
        pose = Pose.of(rotation=torch.zeros(number))
        for name in ("scale", "stretch", "shear", "translation", "reflection"):
            getattr(pose, name)[0] += 7.0
        torch.testing.assert_close(Pose.of(rotation=torch.zeros(number)).matrix, torch.eye(3).expand(number, 3, 3))


def test_whole_numbers_are_no_reason_to_cut_off_fractions():
    assert Pose.of(reflection=torch.tensor([1, -1]), rotation=0.5).rotation.tolist() == [0.5, 0.5]
    assert Pose.of(rotation=torch.tensor([0, 1]), scale=0.5).matrix.is_floating_point()


def test_composing_and_decomposing_have_exact_gradients():
    def round_trip(rotation, scale, stretch, shear, translation):
        pose = decompose(compose(Pose.of(rotation, scale, stretch, shear, translation, -1.0)))
        return invert(pose.matrix), pose.rotation, pose.shear

    values = ([0.4, 2.0], [0.7, 1.3], [1.2, 0.5], [0.3, -0.6], [[0.1, 0.2], [0.0, -0.3]])
    assert torch.autograd.gradcheck(round_trip, [torch.tensor(v).double().requires_grad_() for v in values])


def without(entry, value):
    matrix = torch.eye(3)
    matrix[entry] = value
    return matrix


@pytest.mark.parametrize("function", [decompose, invert])
@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (without((0, 0), 0.0), "singular"),
        (torch.tensor([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]]), "singular"),
        (without((0, 2), math.nan), "not finite"),
        (without((1, 1), math.inf), "not finite"),
        (without((2, 0), 0.1), "last row"),
        (torch.eye(3)[:2], r"shape \(\.\.\., 3, 3\), got \(2, 3\)"),
        (torch.eye(3).long(), "floating point"),
        (torch.stack((torch.eye(3), without((1, 1), 0.0))), "singular"),
    ],
)
def test_what_is_no_pose_is_refused_with_a_sentence(function, matrix, sentence):
    with pytest.raises(ValueError, match=sentence):
        function(matrix)


def test_a_very_small_object_is_still_a_pose():
    matrix = Pose.of(rotation=torch.tensor(0.3), scale=1e-6).matrix
    torch.testing.assert_close(decompose(matrix).scale, torch.tensor(1e-6))
