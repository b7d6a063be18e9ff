"""The kernel composes matrices as the plain steps do: on a GPU, and elsewhere in Triton's interpreter."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest import mock

import pytest
import torch

from tests.one_kernel import in_the_interpreter, needs_cuda, needs_triton, without_cuda
from tokenstn.geometry import Pose, compose

SHAPES = [(), (3,), (300,), (5, 4), (0,)]


def poses_of(shape: tuple[int, ...]) -> Pose:
    """Anything that a pose can be; one of them has an angle that is no number."""
    generator = torch.Generator().manual_seed(len(shape))

    def between(low: float, high: float, *more: int) -> torch.Tensor:
        return low + (high - low) * torch.rand((*shape, *more), generator=generator)

    rotation = between(-math.pi, math.pi)
    if rotation.numel():
        rotation.view(-1)[-1] = torch.nan
    return Pose(
        rotation=rotation,
        scale=between(0.3, 3),
        stretch=between(0.5, 2),
        shear=between(-0.7, 0.7),
        translation=between(-2, 2, 2),
        reflection=torch.where(between(-1, 1) < 0, -1.0, 1.0),
    )


def largest_difference(shape: tuple[int, ...], device: str) -> float:
    """Between the kernel and the plain steps; also for fields that are not contiguous."""
    from tokenstn.geometry.fused_pose import fused_compose

    given = poses_of(shape)
    pose = Pose(**{name: values.to(device) for name, values in vars(given).items()})
    if pose.stretch.ndim:
        pose = replace(pose, stretch=pose.stretch[:1].expand(shape))
    with mock.patch("tokenstn.geometry.affine.one_kernel_for", return_value=False):
        plain = compose(pose)
    numbers = (pose.rotation, pose.scale, pose.stretch, pose.shear, pose.reflection)
    fused = fused_compose(*numbers, pose.translation)
    assert fused.shape == plain.shape and fused.dtype == plain.dtype
    torch.testing.assert_close(fused.isfinite(), plain.isfinite())
    return (fused - plain).nan_to_num().abs().amax().item() if plain.numel() else 0.0


@needs_triton
@without_cuda
def test_the_kernel_composes_as_the_plain_steps_do_in_the_interpreter():
    in_the_interpreter(__name__, "assert all(largest_difference(shape, 'cpu') <= 1e-6 for shape in SHAPES)")


@needs_triton
@needs_cuda
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_composes_as_the_plain_steps_do_on_a_gpu(shape):
    assert largest_difference(shape, "cuda") <= 1e-6


@needs_triton
@needs_cuda
def test_a_gpu_composes_in_one_kernel_unless_a_gradient_or_more_digits_are_wanted():
    pose = Pose.of(rotation=torch.rand(3, device="cuda"))
    compose(pose)
    with mock.patch("tokenstn.geometry.fused_pose.fused_compose", side_effect=RuntimeError("the kernel")):
        with pytest.raises(RuntimeError, match="the kernel"):
            compose(pose)
        compose(Pose.of(rotation=torch.rand(3, device="cuda", requires_grad=True))).sum().backward()
        compose(Pose.of(rotation=torch.rand(3, device="cuda", dtype=torch.float64)))
        compose(Pose(**{**vars(pose), "scale": torch.ones((), device="cuda")}))  # of several shapes
