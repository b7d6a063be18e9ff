"""What a model folder declares, held against the weights that lie in it, before any memory is taken for it.

A config is a few lines that somebody wrote; the weights are as large as their file. So a network is first built without
memory (on torch's meta device), refused there as soon as it grows beyond the file, and then compared with it by name
and shape.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from tokenstn.models.blueprint import Blueprint
from tokenstn.models.keys import KeyReport
from tokenstn.system.documents import in_short

LARGEST_SIDE = 4096  # pixels, of an image that a network reads
CLASSIFIER = "backbone.classifier."  # what the names of a classifier's weights begin with
# A network may hold numbers that are no weights, such as the masks of windows, and replace some while it is built.
SPARE, AGAIN = 2**26, 4
OF_A_PREFIX = 100  # how many times as large the network may be that a rectifier keeps the first layers of
_KINDS = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
}


@dataclass(frozen=True)
class Held:
    """What a file of weights holds, by its head: tensors without memory, by name."""

    tensors: dict[str, Tensor]

    @property
    def numbers(self) -> int:
        """How many there are in all tensors."""
        return sum(tensor.numel() for tensor in self.tensors.values())

    @classmethod
    def read(cls, path: Path) -> Held:
        """The head of a safetensors file, which can say no more than the file has; nothing else is read."""
        try:
            with safe_open(path, "pt") as file:
                slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118
                return cls({key: _empty(part.get_shape(), part.get_dtype()) for key, part in slices.items()})
        except (OSError, SafetensorError, RuntimeError, ValueError) as error:
            raise ValueError(f"{path} cannot be read: {in_short(error)}") from error


def require_weights(blueprint: Blueprint, held: Held) -> None:
    """Refuse a classifier that has other weights than there are."""
    report = KeyReport.compare(
        {f"{CLASSIFIER}{key}": value for key, value in _skeleton(blueprint, held, 1).state_dict().items()},
        {key: value for key, value in held.tensors.items() if key.startswith(CLASSIFIER)},
    )
    if not report.fits:
        raise ValueError(f"the weights do not fit the model: {report}")


def require_room(blueprint: Blueprint, held: Held) -> None:
    """Refuse a network, of which only the first layers are kept, that is far larger than the weights that there are."""
    _skeleton(blueprint, held, OF_A_PREFIX)


def _skeleton(blueprint: Blueprint, held: Held, times: int) -> nn.Module:
    most, there = times * held.numbers, f"its file holds {held.numbers:,} numbers"
    with _counted(AGAIN * most + SPARE, AGAIN * times * len(held.tensors), there):
        network = blueprint.skeleton()
    numbers = sum(tensor.numel() for tensor in (*network.parameters(), *network.buffers()))
    if numbers > most + SPARE:
        raise ValueError(f"with these arguments {blueprint.name} holds {numbers:,} numbers, and {there}")
    return network


@contextmanager
def _counted(numbers: int, tensors: int, there: str) -> Iterator[None]:
    """While a network is built in this thread: no more weights than these, counted as they come."""
    builder = threading.get_ident()
    left = [numbers, tensors]

    def count(module: nn.Module, name: str, weight: Tensor | None) -> None:
        if weight is None or threading.get_ident() != builder:
            return
        left[0] -= weight.numel()
        left[1] -= 1
        if min(left) < 0:
            raise ValueError(f"it describes a network with far more weights, and {there}")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def _empty(shape: list[int], kind: str) -> Tensor:
    return torch.empty(shape, dtype=_KINDS.get(kind, torch.float32), device="meta")
