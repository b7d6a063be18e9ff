"""YAML into dataclasses, and every key or value that does not belong refused with a sentence that says where it is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tokenstn.system.documents import read_yaml, shown

T = TypeVar("T")
_SCIENTIFIC = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+")
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a mapping"}


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a file. YAML 1.1 takes 1e-3 for text; here it is a number."""
    document = read_yaml(path)
    if not isinstance(document, dict):
        raise ValueError(f"{path} holds no mapping of settings")
    return _with_numbers(document)


def typed(kind: type[T], value: Any, where: str) -> T:
    """A dataclass from a mapping; ``where`` names the file and the key for the sentence of an error.

    >>> @dataclasses.dataclass
    ... class Point: x: float; y: float = 0.0
    >>> typed(Point, {"x": 1}, "here")
    Point(x=1.0, y=0.0)
    """
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {shown(value)}: expected a mapping with the keys of a {kind.__name__}")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # pyright: ignore[reportArgumentType]
    unknown = [str(key) for key in value if key not in fields]
    if unknown:
        raise ValueError(f"{where}: unknown key {', '.join(map(shown, unknown))}; there are {', '.join(fields)}")
    missing = [
        name
        for name, field in fields.items()
        if name not in value and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ValueError(f"{where}: {', '.join(missing)} is missing")
    hints = get_type_hints(kind)
    given = {name: _value(hints[name], item, _inside(where, name)) for name, item in value.items()}
    try:
        return kind(**given)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def merged(base: Any, changes: Any) -> Any:
    """Mappings merged key by key, anything else replaced.

    >>> merged({"recipe": {"epochs": 9, "rate": 1.0}}, {"recipe": {"epochs": 1}})
    {'recipe': {'epochs': 1, 'rate': 1.0}}
    """
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        return changes
    return {**base, **{key: merged(base[key], value) if key in base else value for key, value in changes.items()}}


def _value(kind: Any, value: Any, where: str) -> Any:
    options = get_args(kind) if isinstance(kind, UnionType) or get_origin(kind) is Union else (kind,)
    if value is None and NoneType in options:
        return None
    for option in options:
        fits, found = _fitting(option, value, where)
        if fits:
            return found
    raise ValueError(f"{where} is {shown(value)}: expected {' or '.join(map(_described, options))}")


def _fitting(kind: Any, value: Any, where: str) -> tuple[bool, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True, value
    if origin is Literal:
        return value in inner, value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return True, typed(kind, value, where)
    if origin is dict or kind is dict:
        if not isinstance(value, dict):
            return False, None
        return True, {str(key): _value(inner[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin is tuple:
        if not isinstance(value, list | tuple):
            return False, None
        return True, tuple(_value(inner[0], item, f"{where}[{place}]") for place, item in enumerate(value))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return True, float(value)
    return type(value) is kind, value


def _inside(where: str, key: str) -> str:
    """The place of a key: after the name of a file comes a colon, between keys a dot."""
    return f"{where}: {key}" if where.endswith((".yaml", ".yml")) else f"{where}.{key}"


def _described(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(map(repr, get_args(kind)))
    if get_origin(kind) is tuple:
        return "a list"
    return "nothing" if kind is NoneType else _WORDS.get(get_origin(kind) or kind, str(kind))


def _with_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_numbers(item) for item in value]
    return float(value) if isinstance(value, str) and _SCIENTIFIC.fullmatch(value) else value
