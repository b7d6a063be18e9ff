"""Which types the values of a model folder's ``config.json`` have, before it is written and after it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tokenstn.models.call_settings import LEFT_OUT
from tokenstn.models.declared import LARGEST_SIDE
from tokenstn.system.documents import shown

Check = Callable[[Any], bool]


def _is(*kinds: type) -> Check:
    # in Python true is a number, here it is not
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _is_count(value: Any) -> bool:
    return _is(int)(value) and value > 0


def _is_size(value: Any) -> bool:
    """Height and width that an image may have."""
    return _list_of(_is_side, length=2)(value)


def _is_side(value: Any) -> bool:
    return _is_count(value) and value <= LARGEST_SIDE


def _is_share(value: Any) -> bool:
    return _is(float)(value) and 0 < value <= 1


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
_PREPROCESSING = _either(
    _NULL,
    _fields(
        size=_is_size,
        mean=_list_of(_NUMBER),
        std=_list_of(_NUMBER),
        resize=_is(str),
        crop_share=_NUMBER,
        interpolation=_is(str),
    ),
)
_AUTO = _fields(
    mass=_NUMBER,
    most=_is_count,
    sure=_either(_NULL, _NUMBER),
    spread_deg=_NUMBER,
    doubt=_either(_NULL, _NUMBER),
    further=_is(str),
)
# what a config holds, as far as types go; whether the values make sense is known to those who use them
CONFIG: dict[str, Check] = {
    "format": _is_count,
    "tokenstn": _is(str),
    "classifier": _is(dict),
    "input_size": _is_size,
    "primitives": _list_of(_fields(kind=_is(str), bound=_NUMBER)),
    "posterior": _is(str),
    "shared": _either(_NULL, _is_count, _is(str)),
    "localization_size": _either(_NULL, _is_side, _is_share, _is_size),
    "localization_tokens": _is_side,
    "closer_size": _either(_NULL, _is_side, _is_share, _is_size),
    "encoder": _either(_NULL, _fields(classifier=_is(dict), input_size=_is_size, preprocessing=_PREPROCESSING)),
    "multi_label": _is(bool),
    "auto": lambda value: isinstance(value, dict) and _AUTO({**LEFT_OUT, **value}),
    "poses": _is(str),
    "preprocessing": _PREPROCESSING,
    "classes": _either(_NULL, _list_of(_is(str))),
    "thresholds": _either(_NULL, _is(dict)),  # Thresholds.from_json looks inside
}


# the same for the metadata of an exported file
EXPORT: dict[str, Check] = {
    **{name: CONFIG[name] for name in ("format", "tokenstn", "multi_label", "primitives", "posterior", "poses")},
    **{name: CONFIG[name] for name in ("preprocessing", "classes", "thresholds")},
    "classifier": _is(str),
    "weights_sha256": _is(str),
    "views": _either(_NULL, _is_count),
    "parameters": _is(int),
    "localizer_parameters": _is(int),
}


def problem_of(config: dict[str, Any], checks: dict[str, Check] = CONFIG) -> str | None:
    """What is wrong with a config, or with the metadata of an exported file, if anything."""
    missing, unknown = sorted(checks.keys() - config.keys()), sorted(config.keys() - checks.keys())
    if missing or unknown:
        return f"missing {missing}, unknown {shown(unknown)}"
    wrong = [f"{key} {shown(config[key])}" for key, check in checks.items() if not check(config[key])]
    return f"of another type or size than expected: {', '.join(wrong)}" if wrong else None
