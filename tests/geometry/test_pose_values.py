"""Poses from plain numbers, from mixed dtypes, and at the edge of what is a pose."""

import pytest
import torch

from tokenstn.geometry import Pose, Reflection, Scale, decompose, invert


def test_a_pose_of_plain_numbers_is_float32():
    pose = Pose.of(rotation=0.5, translation=(0.1, 0.2))
    assert pose.rotation.dtype == pose.translation.dtype == pose.scale.dtype == torch.float32
    assert pose.rotation.item() == 0.5 and pose.translation.tolist() == pytest.approx([0.1, 0.2])
    assert torch.equal(Pose.of().matrix, torch.eye(3))


def test_all_parts_take_the_dtype_of_the_first_that_is_a_tensor():
    pose = Pose.of(
        rotation=torch.zeros(2, dtype=torch.float64), shear=torch.ones(2), translation=torch.zeros(2, 2), scale=0.5
    )
    assert {getattr(pose, name).dtype for name in ("rotation", "scale", "shear", "translation")} == {torch.float64}
    assert pose.matrix.dtype == torch.float64


def test_an_object_far_away_is_a_pose():
    matrix = Pose.of(rotation=torch.tensor([0.3]), translation=torch.tensor([[1e4, -1e4]])).matrix
    assert decompose(matrix).rotation.item() == pytest.approx(0.3, abs=1e-5)


def test_each_pose_of_a_batch_is_judged_by_itself():
    matrices = Pose.of(scale=torch.tensor([1e-2, 1e3])).matrix
    torch.testing.assert_close(invert(matrices)[:, 0, 0], torch.tensor([1e2, 1e-3]))


@pytest.mark.parametrize("linear", [[[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]]])
def test_what_flattens_the_plane_is_no_pose(linear):
    matrix = torch.eye(3)
    matrix[:2, :2] = torch.tensor(linear)
    with pytest.raises(ValueError, match="singular"):
        decompose(matrix)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_scale_at_or_a_hair_outside_its_ends_has_a_place(dtype):
    """Rounding takes a value at the end of its range over it: that is as far as u goes, and not NaN."""
    primitive, hair = Scale(0.75), torch.finfo(dtype).eps
    ends = torch.tensor([0.75 * (1 - 4 * hair), 0.75, 1 / 0.75, (1 + 4 * hair) / 0.75], dtype=dtype)
    found = primitive.unsquash(ends)
    assert not torch.isnan(found).any() and (found.abs() > 5).all()
    assert (found[:2].sign() == -found[2:].sign()).all()


def test_a_reflection_says_what_to_do_instead_of_a_density():
    for ask in (Reflection().unsquash, Reflection().log_slope):
        with pytest.raises(TypeError, match=r"^a reflection has two values and no density.*probability of each$"):
            ask(torch.zeros(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_reflection_is_a_sign_in_the_dtype_that_came(dtype):
    signs = Reflection().squash(torch.tensor([-2.0, -0.3, 0.0, 0.5, 7.0], dtype=dtype))
    assert signs.dtype == dtype and signs.tolist() == [-1, -1, 1, 1, 1]
