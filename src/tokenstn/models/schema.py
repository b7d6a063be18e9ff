"""Which types the values of a model folder's ``config.json`` have, before it is written and after it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[[Any], bool]


def _is(*kinds: type) -> Check:
    # in Python true is a number, here it is not
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _is_count(value: Any) -> bool:
    return _is(int)(value) and value > 0


def _either(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


def _list_of(check: Check, length: int | None = None) -> Check:
    # a tuple before it is written, a list when it is read
    return lambda value: (
        isinstance(value, list | tuple) and length in (None, len(value)) and all(check(item) for item in value)
    )


def _fields(**checks: Check) -> Check:
    return lambda value: (
        isinstance(value, dict)
        and value.keys() == checks.keys()
        and all(check(value[key]) for key, check in checks.items())
    )


_NULL = _is(type(None))
_NUMBER = _is(int, float)
_SIZE = _list_of(_is_count, length=2)
_PREPROCESSING = _either(
    _NULL,
    _fields(
        size=_SIZE,
        mean=_list_of(_NUMBER),
        std=_list_of(_NUMBER),
        resize=_is(str),
        crop_share=_NUMBER,
        interpolation=_is(str),
    ),
)
# what a config holds, as far as types go; whether the values make sense is known to those who use them
_CHECKS: dict[str, Check] = {
    "format": _is_count,
    "tokenstn": _is(str),
    "classifier": _is(dict),
    "input_size": _SIZE,
    "primitives": _list_of(_fields(kind=_is(str), bound=_NUMBER)),
    "posterior": _is(str),
    "shared": _either(_NULL, _is_count, _is(str)),
    "localization_size": _either(_NULL, _is_count, _SIZE),
    "encoder": _either(_NULL, _fields(classifier=_is(dict), input_size=_SIZE, preprocessing=_PREPROCESSING)),
    "multi_label": _is(bool),
    "auto": _fields(mass=_NUMBER, most=_is_count),
    "poses": _is(str),
    "preprocessing": _PREPROCESSING,
    "classes": _either(_NULL, _list_of(_is(str))),
    "thresholds": _either(_NULL, _is(dict)),  # Thresholds.from_json looks inside
}


def problem_of(config: dict[str, Any]) -> str | None:
    """What is wrong with a config, if anything."""
    missing, unknown = sorted(_CHECKS.keys() - config.keys()), sorted(config.keys() - _CHECKS.keys())
    if missing or unknown:
        return f"missing {missing}, unknown {unknown}"
    wrong = [f"{key} {config[key]!r}" for key, check in _CHECKS.items() if not check(config[key])]
    return f"of another type than expected: {', '.join(wrong)}" if wrong else None
