"""Small tensors that are the same in every call, made once for each device.

Making them anew would copy them to the GPU each time, and such a copy waits until the GPU has nothing else to do. A
compiled graph is given them as well; one that is exported, or is for images of any size, makes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache

import torch
from torch import Tensor

from tokenstn.geometry.tracing import compiling_to_run_here, static


def constant(make: Callable[..., Tensor], *arguments: Hashable, like: Tensor) -> Tensor:
    """``make(*arguments, device)`` in the dtype and on the device of ``like``. It is shared: never write into it.

    >>> constant(torch.arange, 3, like=torch.zeros((), dtype=torch.float64))
    tensor([0., 1., 2.], dtype=torch.float64)
    """
    if not torch.compiler.is_compiling():
        return _made(make, arguments, like.dtype, like.device)
    if compiling_to_run_here() and static(arguments):
        return getattr(_GIVEN, _place(make, arguments, like.dtype, like.device))
    return make(*arguments, device=like.device).to(like.dtype)  # the graph makes it


def numbers(values: tuple[float, ...], like: Tensor) -> Tensor:
    """A constant of given numbers, ``(n,)``."""
    return constant(_row, values, like=like)


def scalar(value: float, like: Tensor) -> Tensor:
    """A constant of one number, ``()``."""
    return constant(_single, value, like=like)


def _row(values: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device=device)


def _single(value: float, device: torch.device) -> Tensor:
    return torch.full((), value, dtype=torch.float64, device=device)


class _Given:
    """Where compiled graphs find them: torch 2.11 takes no two tensors of one ``assume_constant_result`` in a graph."""


_GIVEN = _Given()


@torch.compiler.assume_constant_result
def _place(
    make: Callable[..., Tensor], arguments: tuple[Hashable, ...], dtype: torch.dtype, device: torch.device
) -> str:
    made = _made(make, arguments, dtype, device)
    name = f"constant_{id(made)}"
    setattr(_GIVEN, name, made)  # and keeps it, so that no other is ever called that
    return name


@lru_cache(maxsize=256)
def _made(
    make: Callable[..., Tensor], arguments: tuple[Hashable, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    with torch.inference_mode(False):  # what is made in inference mode could not be trained with later
        return make(*arguments, device=device).to(dtype)
