"""The kernel finds the best angle of a ring as the plain steps do: on a GPU, and elsewhere in Triton's interpreter."""

from __future__ import annotations

import math
from unittest import mock

import pytest
import torch
from torch import Tensor

from tests.one_kernel import in_the_interpreter, needs_cuda, needs_triton, without_cuda
from tokenstn.geometry import Rotation, wrap_angle
from tokenstn.posteriors import Circular


def rings() -> Tensor:
    """Sharp, flat, across the seam, with two highest bins, and all the same: logits ``(B, 36)``."""
    generator = torch.Generator().manual_seed(0)
    angles = torch.arange(36) * math.pi / 18
    at_every_angle = 9 * torch.cos(angles - torch.linspace(-math.pi, math.pi, 50)[:, None])
    twice = torch.zeros(2, 36)
    twice[0, [17, 18]], twice[1, [0, 35]] = 5.0, 5.0
    return torch.cat((3 * torch.randn(40, 36, generator=generator), at_every_angle, twice, torch.zeros(1, 36)))


def largest_difference(device: str) -> float:
    """Between the kernel and the plain steps, the short way round."""
    from tokenstn.posteriors.fused_peak import fused_peak

    logits = rings().to(device)
    with mock.patch("tokenstn.posteriors.circular.one_kernel_for", return_value=False):
        plain = Circular(Rotation(), logits).best()
    fused = fused_peak(logits)
    assert fused.shape == plain.shape and bool((fused >= -math.pi).all() and (fused < math.pi + 1e-6).all())
    assert fused_peak(logits[:0]).shape == (0,)
    return wrap_angle(fused - plain).abs().max().item()


def no_numbers(device: str) -> bool:
    """Whether what is no number gives none, and leaves its neighbours alone."""
    from tokenstn.posteriors.fused_peak import fused_peak

    logits = rings().to(device)
    before = fused_peak(logits)
    logits[3, 7], logits[5, 0], logits[9, 1] = math.nan, math.inf, -math.inf
    after = fused_peak(logits)
    wrong = torch.isin(torch.arange(len(logits)), torch.tensor([3, 5, 9])).to(device)
    return bool(after[wrong].isnan().all() and (after[~wrong] == before[~wrong]).all())


@needs_triton
@without_cuda
def test_the_kernel_finds_the_angle_of_the_plain_steps_in_the_interpreter():
    in_the_interpreter(__name__, "assert largest_difference('cpu') <= 1e-5 and no_numbers('cpu')")


@needs_triton
@needs_cuda
def test_the_kernel_finds_the_angle_of_the_plain_steps_on_a_gpu():
    assert largest_difference("cuda") <= 1e-5 and no_numbers("cuda")


@needs_triton
@needs_cuda
def test_a_gpu_takes_the_kernel_unless_a_gradient_is_wanted_or_the_ring_has_a_bound():
    logits = rings().cuda()
    Circular(Rotation(), logits).best()
    with mock.patch("tokenstn.posteriors.fused_peak.fused_peak", side_effect=RuntimeError("the kernel")):
        with pytest.raises(RuntimeError, match="the kernel"):
            Circular(Rotation(), logits).best()
        Circular(Rotation(), logits.clone().requires_grad_()).best().sum().backward()
        Circular(Rotation(bound=1.0), logits).best()
