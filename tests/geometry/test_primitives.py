"""The primitives: bounded values of an unbounded number, and the way back."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenstn.geometry import (
    OneSidedScale,
    Pose,
    Reflection,
    Rotation,
    Scale,
    Shear,
    Translation,
    as_primitives,
)

SMOOTH = [Rotation(), Rotation(0.5), Scale(), Scale(0.3), OneSidedScale(), Shear(), Shear(2.0), Translation()]
ALL = [*SMOOTH, Reflection()]
smooth = pytest.mark.parametrize("primitive", SMOOTH, ids=repr)
fast = settings(max_examples=30, deadline=None)


def numbers(low=-5.0, high=5.0):
    return st.lists(st.floats(low, high), min_size=1, max_size=5).map(lambda u: torch.tensor(u, dtype=torch.float64))


@smooth
@given(u=numbers())
@fast
def test_unsquashing_is_the_way_back(primitive, u):
    # near the ends the slope is e⁻¹⁰, which is what multiplies the rounding
    torch.testing.assert_close(primitive.unsquash(primitive.squash(u)), u, rtol=0, atol=1e-9)


@smooth
@given(share=st.floats(0.001, 0.999))
@fast
def test_squashing_is_the_way_back(primitive, share):
    low, high = primitive.range
    value = torch.tensor(low + share * (high - low), dtype=torch.float64)
    torch.testing.assert_close(primitive.squash(primitive.unsquash(value)), value)


@pytest.mark.parametrize("primitive", [*SMOOTH, OneSidedScale(0.9)], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_ends_of_the_range_have_a_place_far_out(primitive, dtype):
    ends = primitive.unsquash(torch.tensor(primitive.range, dtype=dtype))
    low, high = ends if primitive.rising else ends.flip(0)
    assert low < -5 and high > 5  # not true of NaN, which rounding can give


@smooth
@given(u=numbers(-8, 8))
@fast
def test_the_log_slope_is_the_derivative(primitive, u):
    u.requires_grad_()
    (slope,) = torch.autograd.grad(primitive.squash(u).sum(), u)
    # 1 − tanh² loses digits where tanh is nearly 1: e⁻¹⁶ against 1e-16
    torch.testing.assert_close(primitive.log_slope(u), slope.abs().log(), rtol=0, atol=1e-6)


@smooth
def test_the_log_slope_stays_finite_far_out(primitive):
    assert bool(torch.isfinite(primitive.log_slope(torch.tensor([-1e4, 1e4]))).all())


@pytest.mark.parametrize("primitive", ALL, ids=repr)
@given(u=st.floats(-1e6, 1e6))
@fast
def test_values_stay_in_range(primitive, u):
    low, high = primitive.range
    for dtype in (torch.float32, torch.float64):
        value = primitive.squash(torch.tensor(u, dtype=dtype)).item()
        rounding = 4 * torch.finfo(dtype).eps * max(abs(low), abs(high))
        assert low - rounding <= value <= high + rounding


@smooth
def test_rising_says_which_way_the_value_goes(primitive):
    values = primitive.squash(torch.linspace(-3, 3, 50))
    assert bool((values.diff() > 0).all() if primitive.rising else (values.diff() < 0).all())


@pytest.mark.parametrize("primitive", ALL, ids=repr)
def test_a_fresh_network_starts_at_the_identity(primitive):
    value = primitive.squash(torch.tensor(primitive.start)).item()
    if isinstance(primitive, OneSidedScale):  # reaches 1 only in the limit
        assert value == pytest.approx(0.9955, abs=5e-5)
    else:
        assert value == primitive.identity


def test_two_sided_scale_is_symmetric_in_the_logarithm():
    u = torch.linspace(0.1, 3, 20)
    torch.testing.assert_close(Scale().squash(u) * Scale().squash(-u), torch.ones(20))


@smooth
def test_the_cells_of_the_entropy_cover_the_range(primitive):
    edges = primitive.cell_edges(37)
    assert len(edges) == 38 and bool((edges.diff() > 0).all())
    torch.testing.assert_close(edges[[0, -1]], torch.tensor(primitive.range, dtype=torch.float64))
    if not isinstance(primitive, OneSidedScale):
        assert edges[18] < primitive.identity < edges[19]


@given(u=st.floats(-1e3, 1e3))
@fast
def test_a_reflection_is_never_anything_but_one_of_its_two_values(u):
    for dtype in (torch.float32, torch.float64):
        number = torch.tensor(u, dtype=dtype)
        assert Reflection().squash(number).item() == (-1.0 if number < 0 else 1.0)


def test_a_reflection_of_zero_is_not_singular():
    assert Reflection().squash(torch.tensor([0.0, -0.0])).tolist() == [1.0, 1.0]


def test_the_gradient_of_a_reflection_passes_straight_through_inside_one():
    u = torch.tensor([-3.0, -1.01, -1.0, -0.4, 0.0, 0.7, 1.0, 1.01, 5.0], requires_grad=True)
    Reflection().squash(u).sum().backward()
    assert u.grad.tolist() == (u.abs() <= 1).float().tolist()


def test_a_reflection_has_no_density():
    for method in (Reflection().unsquash, Reflection().log_slope):
        with pytest.raises(TypeError, match="two values and no density"):
            method(torch.tensor(1.0))


@pytest.mark.parametrize(
    ("primitive", "value", "linear"),
    [
        (Rotation(), 0.3, [[math.cos(0.3), -math.sin(0.3)], [math.sin(0.3), math.cos(0.3)]]),
        (Scale(), 0.8, [[0.8, 0.0], [0.0, 0.8]]),
        (OneSidedScale(), 0.9, [[0.9, 0.0], [0.0, 0.9]]),
        (Shear(), 0.4, [[1.0, 0.4], [0.0, 1.0]]),
        (Translation(), (0.1, -0.05), [[1.0, 0.0], [0.0, 1.0]]),
        (Reflection(), -1.0, [[1.0, 0.0], [0.0, -1.0]]),
    ],
    ids=lambda p: getattr(p, "name", ""),
)
def test_the_matrix_is_that_of_the_primitive_alone(primitive, value, linear):
    value = torch.tensor(value)
    expected = torch.eye(3)
    expected[:2, :2] = torch.tensor(linear)
    if isinstance(primitive, Translation):
        expected[:2, 2] = value
    torch.testing.assert_close(primitive.matrix(value), expected)
    batch = value.expand(2, 3, *value.shape)
    torch.testing.assert_close(primitive.matrix(batch), expected.expand(2, 3, 3, 3))
    torch.testing.assert_close(primitive.matrix(batch), Pose.of(**{primitive.name: batch}).matrix)


@pytest.mark.parametrize("bound", [3.14159, 3.1416, 3.142, float(np.float32(np.pi)), np.float32(np.pi)])
def test_a_rotation_bound_that_is_nearly_pi_is_the_full_circle(bound):
    assert Rotation(bound).full_circle and Rotation(bound) == Rotation()


@pytest.mark.parametrize("bound", [3.15, 180])
def test_a_rotation_bound_beyond_the_full_circle_is_told_its_name(bound):
    with pytest.raises(ValueError, match=r"at most math\.pi rad"):
        Rotation(bound)


def test_only_the_whole_range_of_angles_is_a_full_circle():
    assert Rotation().full_circle and not Rotation(3.14).full_circle


@pytest.mark.parametrize("kind", [Rotation, Scale, OneSidedScale, Shear, Translation])
@pytest.mark.parametrize("bound", [0.0, -0.1, 4.0, math.nan, math.inf])
def test_a_bound_out_of_range_is_refused_with_a_sentence(kind, bound):
    with pytest.raises(ValueError, match=f"{kind.__name__}.*the bound of {kind.name} must be above 0 and at most"):
        kind(bound)


def test_a_reflection_takes_no_bound():
    with pytest.raises(ValueError, match="takes no other bound"):
        Reflection(0.5)


def test_primitives_come_in_the_order_of_the_decomposition():
    wanted = as_primitives(("reflection", Translation(0.5), "shear", OneSidedScale(), "rotation"))
    assert wanted == (Rotation(), OneSidedScale(), Shear(), Translation(0.5), Reflection())
    assert as_primitives("scale") == (Scale(),)
    assert as_primitives(()) == ()


def test_wrong_primitives_are_refused_with_a_sentence():
    with pytest.raises(ValueError, match="unknown primitive 'rotate'; there are rotation, scale"):
        as_primitives(("rotate",))
    with pytest.raises(ValueError, match="scale is named twice"):
        as_primitives(("scale", OneSidedScale()))
    with pytest.raises(TypeError, match="a primitive is a name or a Primitive"):
        as_primitives((3,))
