"""Whether what takes torch several steps can be done here by one kernel of Triton: on a GPU, without gradients."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _get_current_dispatch_mode


def one_kernel_for(*tensors: Tensor) -> bool:
    """Whether a kernel may take these: float32, on one GPU, no gradient wanted, Triton at hand.

    Not in a graph that is compiled or exported: the one is made of kernels of its own, the other runs elsewhere.
    """
    first = tensors[0]
    return (
        first.is_cuda
        and not torch.compiler.is_compiling()
        and all(tensor.dtype == torch.float32 and tensor.device == first.device for tensor in tensors)
        and not wants_gradient(*tensors)
        and only_numbers(*tensors)
        and triton_runs(first.device)
    )


def wants_gradient(*tensors: Tensor) -> bool:
    """Whether a gradient is to flow back through what is made of these."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def only_numbers(*tensors: Tensor) -> bool:
    """Whether these are what a kernel takes them for: numbers in memory, and not stand-ins without any, such as fake
    tensors, nor what ``torch.func`` maps over or differentiates forward.
    """
    return (
        all(type(tensor) in (Tensor, nn.Parameter) for tensor in tensors)
        and _get_current_dispatch_mode() is None
        and torch._C._functorch.peek_interpreter_stack() is None  # pyright: ignore[reportAttributeAccessIssue]
        and forward_ad._current_level < 0
    )


@cache
def triton_runs(device: torch.device) -> bool:
    """Whether Triton is installed, and compiles for this GPU: it wants a compiler and Python's headers, too."""
    if find_spec("triton") is None or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    from tokenstn.geometry.fused_warp import fused_warp

    try:
        fused_warp(torch.zeros(1, 1, 2, 2, device=device), torch.eye(3, device=device)[None, None], (2, 2))
    except Exception as error:  # of a compiler, a driver, a missing file: anything but our images
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        warnings.warn(
            f"poses are found and images warped in several steps, because Triton does not run here: {reason}",
            stacklevel=2,
        )
        return False
    return True
