"""A kernel is given numbers alone: not what stands for some, is mapped over or differentiated forward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

from tokenstn.geometry.one_kernel import one_kernel_for, only_numbers


def test_tensors_and_parameters_are_numbers():
    assert only_numbers(torch.rand(2), nn.Parameter(torch.rand(2)))
    with torch.inference_mode():
        assert only_numbers(torch.rand(2))


def test_fake_tensors_are_not_also_outside_of_their_mode():
    with FakeTensorMode():
        fake = torch.rand(2)
        assert not only_numbers(fake)
    assert not only_numbers(torch.rand(2), fake)


def test_what_a_mode_looks_at_is_left_to_torch():
    with FlopCounterMode(display=False):
        assert not only_numbers(torch.rand(2))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:FutureWarning")  # torch's own, at the first jvp
def test_what_is_mapped_over_or_differentiated_forward_is_left_to_torch():
    seen = []

    def look(values: Tensor) -> Tensor:
        seen.append(only_numbers(values))
        return values

    torch.func.vmap(look)(torch.rand(2, 3))
    torch.func.jvp(look, (torch.rand(3),), (torch.ones(3),))
    with forward_ad.dual_level():
        look(forward_ad.make_dual(torch.rand(3), torch.ones(3)))
    assert seen == [False, False, False]
    assert only_numbers(torch.rand(3))


def test_nothing_on_a_cpu_is_given_to_a_kernel():
    assert not one_kernel_for(torch.rand(2))
