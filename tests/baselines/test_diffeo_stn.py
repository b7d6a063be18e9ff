"""The exponential is never singular, and its inverse is the exponential of the negative."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tokenstn.baselines.diffeo_stn import affine_exponential, skew_exponential
from tokenstn.geometry import Rotation, invert

from .makers import make_rival, noise_images

velocities = st.lists(st.floats(-2, 2, width=32), min_size=6, max_size=6).map(torch.tensor)


@given(velocities)
def test_the_inverse_is_the_exponential_of_the_negative(velocity):
    matrix, back = affine_exponential(velocity), affine_exponential(-velocity)
    size = matrix.norm() * back.norm()
    assert (matrix @ back - torch.eye(3)).abs().max() < 1e-5 * size
    determinant = torch.linalg.det(matrix.double())
    assert determinant > 0  # e to the trace
    assert torch.equal(matrix[2], torch.tensor([0.0, 0.0, 1.0]))


@given(st.floats(-7, 7, width=32))
def test_the_skew_part_gives_rotations(angle):
    rotation = skew_exponential(torch.tensor(angle))
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(3), atol=1e-6, rtol=0)
    velocity = torch.tensor([0.0, -angle, 0.0, angle, 0.0, 0.0])
    torch.testing.assert_close(rotation, affine_exponential(velocity), atol=1e-5, rtol=0)
    torch.testing.assert_close(rotation, Rotation().matrix(torch.tensor(angle)))


def test_the_exponential_has_a_gradient():
    velocity = torch.randn(2, 6, dtype=torch.float32).mul(0.3).requires_grad_()
    (gradient,) = torch.autograd.grad(affine_exponential(velocity).sum(), velocity)
    step = 1e-2 * torch.randn(2, 6)
    with torch.no_grad():
        change = affine_exponential(velocity + step).sum() - affine_exponential(velocity - step).sum()
    torch.testing.assert_close(change, 2 * (gradient * step).sum(), atol=1e-4, rtol=1e-2)


@torch.no_grad()
def test_the_skew_model_knows_rotations_only():
    model, images = make_rival("diffeo-stn", skew=True), noise_images()
    assert [primitive.name for primitive in model.primitives] == ["rotation"]
    matrix = model(images).pose.matrix
    torch.testing.assert_close(invert(matrix), matrix.mT, atol=1e-5, rtol=0)
