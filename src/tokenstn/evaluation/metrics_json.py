"""An evaluation as JSON and back, and the schema of that JSON, all derived from the result types.

JSON has no NaN: a number that is not defined (the accuracy of a class without images) is null there and NaN again here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tokenstn.evaluation.results import SCHEMA, Evaluation
from tokenstn.system.documents import shown

T = TypeVar("T")
_PLAIN = {str: "string", bool: "boolean", int: "integer"}


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Plain dicts, lists, numbers and strings, as ``json.dump`` takes them."""
    return plain(evaluation)


def from_json(document: dict[str, Any]) -> Evaluation:
    """The evaluation that ``to_json`` wrote."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        given = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise ValueError(
            f"this is not an evaluation: its schema is {given!r} and {SCHEMA!r} is read; run tokenstn evaluate again"
        )
    return restored(Evaluation, document, "evaluation")


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of ``to_json``; dataclasses are its definitions.

    >>> json_schema()["$defs"]["Interval"]["required"]
    ['value', 'low', 'high']
    """
    definitions: dict[str, Any] = {}
    root = _described(Evaluation, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def plain(value: Any) -> Any:
    """A value of dataclasses, dicts and tuples in the types of JSON; what JSON does not know as text."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)  # a path or a device among the settings


def restored(kind: Any, value: Any, where: str) -> Any:
    """A value of the type ``kind``; ``where`` is for the error."""
    options = _options(kind)
    if value is None and NoneType in options:
        return None
    kind = next(option for option in options if option is not NoneType)
    if kind is float and value is None:
        return math.nan
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _restored_dataclass(kind, value, where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is dict and isinstance(value, dict):
        return {key: restored(inner[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin is tuple and isinstance(value, list | tuple):
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
        if len(kinds) == len(value):
            return tuple(restored(k, v, f"{where}[{n}]") for n, (k, v) in enumerate(zip(kinds, value, strict=True)))
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and isinstance(value, kind) and (kind is bool) == isinstance(value, bool):
        return value
    raise ValueError(
        f"{where} is {shown(value)}, which does not go with the schema {SCHEMA}; the file was edited or cut off"
    )


def _restored_dataclass(kind: type, value: Any, where: str) -> Any:
    hints = _hints(kind)
    known = {field.name: field for field in dataclasses.fields(kind)}
    if not isinstance(value, dict) or set(value) - set(known):
        unknown = ", ".join(sorted(set(value) - set(known))) if isinstance(value, dict) else repr(value)
        raise ValueError(
            f"{where} has what {kind.__name__} does not know: {unknown}; it was written by another version"
        )
    missing = [
        name
        for name, field in known.items()
        if name not in value and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ValueError(f"{where} lacks {', '.join(missing)}; the file was edited or cut off")
    return kind(**{name: restored(hints[name], item, f"{where}.{name}") for name, item in value.items()})


def _described(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    options = _options(kind)
    if len(options) > 1:
        return {"anyOf": [_described(option, definitions) for option in options]}
    if kind is Any:
        return {}
    if kind is NoneType:
        return {"type": "null"}
    if kind is float:
        return {"type": ["number", "null"]}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # taken, should it refer to itself
            hints = _hints(kind)
            definitions[kind.__name__] = {
                "type": "object",
                "description": (kind.__doc__ or "").strip().split("\n")[0],
                "properties": {f.name: _described(hints[f.name], definitions) for f in dataclasses.fields(kind)},
                "required": [f.name for f in dataclasses.fields(kind)],
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{kind.__name__}"}
    origin, inner = get_origin(kind), get_args(kind)
    if origin is dict:
        return {"type": "object", "additionalProperties": _described(inner[1], definitions)}
    if origin is tuple and inner[-1] is Ellipsis:
        return {"type": "array", "items": _described(inner[0], definitions)}
    if origin is tuple:
        parts = [_described(part, definitions) for part in inner]
        return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    raise TypeError(f"no JSON is known for {kind}")


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
