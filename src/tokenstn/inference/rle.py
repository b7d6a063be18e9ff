"""COCO's run-length masks: the lengths of alternating runs of 0 and 1, down the columns, the first of 0.

They come as a list of numbers, or as text: each number, from the fourth on less the one two before it, in groups of
five bits, the lowest first, with a sixth bit where more follow; each group is a character from "0" on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BITS, _MORE, _SIGN, _ZERO = 5, 0x20, 0x10, 48


def decode_mask(mask: dict[str, Any]) -> NDArray[np.uint8]:
    """``{"size": [height, width], "counts": numbers or text}`` as ``(height, width)`` of 0 and 1.

    >>> decode_mask({"size": [2, 2], "counts": [1, 2, 1]}).tolist()
    [[0, 1], [1, 0]]
    """
    height, width = mask["size"]
    counts = mask["counts"]
    runs = _from_text(counts) if isinstance(counts, str) else [int(count) for count in counts]
    if sum(runs) != height * width or min(runs, default=0) < 0:
        raise ValueError(f"a mask of {height} × {width} pixels has runs of {sum(runs)}: it is broken")
    values = np.arange(len(runs), dtype=np.uint8) % 2
    return np.repeat(values, runs).reshape(width, height).T


def encode_mask(mask: NDArray[np.uint8], as_text: bool) -> dict[str, Any]:
    """The way back, as text or as numbers.

    >>> encode_mask(np.array([[0, 1], [1, 0]], dtype=np.uint8), as_text=False)
    {'size': [2, 2], 'counts': [1, 2, 1]}
    """
    down = (mask.T.ravel() > 0).astype(np.int8)
    changes = np.flatnonzero(np.diff(down, prepend=0))
    edges = np.concatenate(([0], changes, [down.size]))
    runs = np.diff(edges).tolist()
    return {"size": list(mask.shape), "counts": _to_text(runs) if as_text else runs}


def _from_text(text: str) -> list[int]:
    runs: list[int] = []
    number, shift = 0, 0
    for character in text:
        group = ord(character) - _ZERO
        number |= (group & (_MORE - 1)) << shift
        shift += _BITS
        if group & _MORE:
            continue
        if group & _SIGN:
            number -= 1 << shift
        runs.append(number + (runs[-2] if len(runs) > 2 else 0))
        number, shift = 0, 0
    return runs


def _to_text(runs: list[int]) -> str:
    characters = []
    for place, run in enumerate(runs):
        number = run - (runs[place - 2] if place > 2 else 0)
        while True:
            group = number & (_MORE - 1)
            number >>= _BITS
            # done when what is left is nothing but the sign
            done = number == (-1 if group & _SIGN else 0)
            characters.append(chr(_ZERO + (group if done else group | _MORE)))
            if done:
                break
    return "".join(characters)
