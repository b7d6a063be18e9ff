"""Which settings a model is refused for, with a sentence."""

from __future__ import annotations

from typing import Any

from tokenstn.models.backbone import Backbone, LocalizationSize
from tokenstn.posteriors import POSTERIORS


def check_settings(
    posterior: str, localization_size: Any, localization_tokens: Any, closer_size: Any, poses: str | None
) -> None:
    """Refuse settings that mean nothing, also those that no primitive asks for yet."""
    if posterior not in POSTERIORS:
        raise ValueError(f"unknown posterior {posterior!r}; there are {', '.join(POSTERIORS)}")
    for name, size in (("localization_size", localization_size), ("closer_size", closer_size)):
        if not _is_size(size):
            raise ValueError(
                f"{name}={size!r}: a share of the image in (0, 1], whole pixels of its shorter side, or a tuple of "
                "height and width"
            )
    if not _is_count(localization_tokens):
        raise ValueError(f"localization_tokens={localization_tokens!r}: a whole number, at least 1")
    if poses not in (None, "absolute", "relative"):
        raise ValueError(f"poses={poses!r}: absolute or relative")


def require_closer(reader: Backbone, closer_size: LocalizationSize, localization_size: LocalizationSize) -> None:
    """Refuse a closer size that reads images from further away."""
    closer, first = (reader.reading_size(*reader.input_size, size) for size in (closer_size, localization_size))
    if min(closer) < min(first):
        raise ValueError(
            f"closer_size={closer_size!r}: images in doubt would be read from further away than at first, at "
            f"{min(closer)} pixels instead of {min(first)}; give a larger one, or leave it out"
        )


def _is_size(size: Any) -> bool:
    if isinstance(size, float):
        return 0 < size <= 1
    if isinstance(size, tuple):
        return len(size) == 2 and all(map(_is_count, size))
    return size is None or _is_count(size)


def _is_count(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1
