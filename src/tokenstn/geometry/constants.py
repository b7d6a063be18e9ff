"""Small tensors that are the same in every call, made once for each device.

Making them anew would copy them to the GPU each time, and such a copy waits until the GPU has nothing else to do. A
compiled graph is given them as well; one that is exported, or is for images of any size, makes its own.

Those of the last calls are kept here. Whoever remembers where they lie, as a CUDA graph does, keeps them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from tokenstn.geometry.tracing import compiling_to_run_here, static

_USED: ContextVar[list[Tensor] | None] = ContextVar("constants used", default=None)


def constant(make: Callable[..., Tensor], *arguments: Hashable, like: Tensor) -> Tensor:
    """``make(*arguments, device)`` in the dtype and on the device of ``like``. It is shared: never write into it.

    >>> constant(torch.arange, 3, like=torch.zeros((), dtype=torch.float64))
    tensor([0., 1., 2.], dtype=torch.float64)
    """
    if not torch.compiler.is_compiling():
        if isinstance(like, FakeTensor):  # has no values, and takes no part in anything with tensors that have
            with like.fake_mode:
                return make(*arguments, device=like.device).to(like.dtype)
        found = _made(make, arguments, like.dtype, like.device)
        used = _USED.get()
        if used is not None:
            used.append(found)
        return found
    if compiling_to_run_here() and static(arguments):
        return getattr(_GIVEN, _place(make, arguments, like.dtype, like.device))
    return make(*arguments, device=like.device).to(like.dtype)  # the graph makes it


@contextmanager
def constants_used() -> Iterator[list[Tensor]]:
    """What this thread asks for in the block, in a list that keeps it alive.

    >>> with constants_used() as used:
    ...     _ = numbers((0.5, 2.0), torch.zeros(()))
    >>> used
    [tensor([0.5000, 2.0000])]
    """
    used: list[Tensor] = []
    before = _USED.set(used)
    try:
        yield used
    finally:
        _USED.reset(before)


def numbers(values: tuple[float, ...], like: Tensor) -> Tensor:
    """A constant of given numbers, ``(n,)``."""
    return constant(_row, values, like=like)


def scalar(value: float, like: Tensor) -> Tensor:
    """One number, ``()``: a constant where it is 0 or 1; others could be any, and would push the constants out."""
    if torch.compiler.is_compiling() or value in (0.0, 1.0):
        return constant(_single, value, like=like)
    return like.new_full((), value)


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
    # what is made in inference mode could not be trained with later, and what is made in FakeTensorMode has no values
    with torch.inference_mode(False), _disable_current_modes():
        return make(*arguments, device=device).to(dtype)
