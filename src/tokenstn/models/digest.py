"""A name for weights: two states with the same one are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def digest_of(state: Mapping[str, Tensor], about: str = "") -> str:
    """SHA-256 of names, types, shapes and values, in the order of the names, and of a text that goes with them.

    >>> digest_of({"a": torch.zeros(2)}) == digest_of({"a": torch.zeros(2)})
    True
    >>> digest_of({"a": torch.zeros(2)}) == digest_of({"a": torch.zeros(2, 1)})
    False
    """
    found = hashlib.sha256(about.encode())
    for name, values in sorted(state.items()):
        found.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        found.update(values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()
