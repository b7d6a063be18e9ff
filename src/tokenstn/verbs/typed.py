"""A call as it would be typed, for reports and for whoever wants to repeat it."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def as_typed(verb: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """The command line of a call: what is required by its place, options where they are not the default.

    >>> def evaluate(model: str, data: str | None = None, limit: int | None = None, cost: bool = True): ...
    >>> as_typed(evaluate, {"model": "my model", "data": "photos", "limit": None, "cost": False})
    "tokenstn evaluate 'my model' --data photos --cost=false"
    >>> def train(images: str, primitives: list[str] | None = None): ...
    >>> as_typed(train, {"images": "photos", "primitives": ["rotation", "scale"]})
    'tokenstn train photos --primitives rotation,scale'
    """
    words, options = ["tokenstn", verb.__name__], []
    for name, parameter in inspect.signature(verb).parameters.items():
        value = arguments[name]
        if parameter.default is parameter.empty:
            words += [called(item) for item in value] if isinstance(value, list | tuple) else [called(value)]
        elif isinstance(value, bool):
            options += [f"--{name}={str(value).lower()}"] if value != parameter.default else []
        elif value != parameter.default:
            options += [f"--{name}", called(value)]
    return shlex.join(words + options)


def called(value: Any) -> str:
    """What a person calls a thing: its text, its path, or for an object from Python its name or class."""
    if isinstance(value, str | int | float | Path):
        return str(value)
    if isinstance(value, list | tuple):
        return ",".join(called(item) for item in value)
    return str(getattr(value, "name", type(value).__name__))
