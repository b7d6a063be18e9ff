"""Which weights fit a model and which do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

SHOWN, LONGEST = 5, 200  # keys, and letters of each


@dataclass(frozen=True)
class KeyReport:
    """Names of weights that the model has and the file lacks, the other way round, and those of another shape or kind.

    Of another kind is a whole number in the place of one with a fraction, or the other way round.
    """

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    shapes: tuple[str, ...]
    kinds: tuple[str, ...] = ()

    @classmethod
    def compare(cls, wanted: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> KeyReport:
        """``wanted`` is the model's state dict, ``given`` what a file holds."""
        return cls(
            missing=tuple(key for key in wanted if key not in given),
            unexpected=tuple(key for key in given if key not in wanted),
            shapes=tuple(
                f"{key} {tuple(given[key].shape)} instead of {tuple(wanted[key].shape)}"
                for key in wanted
                if key in given and given[key].shape != wanted[key].shape
            ),
            kinds=tuple(
                f"{key} {given[key].dtype} instead of {wanted[key].dtype}"
                for key in wanted
                if key in given and given[key].is_floating_point() != wanted[key].is_floating_point()
            ),
        )

    @property
    def fits(self) -> bool:
        return not (self.missing or self.unexpected or self.shapes or self.kinds)

    def __str__(self) -> str:
        parts = (
            ("missing", self.missing),
            ("unexpected", self.unexpected),
            ("of another shape", self.shapes),
            ("of another kind", self.kinds),
        )
        return "; ".join(f"{len(keys)} {what}: {_some(keys)}" for what, keys in parts if keys) or "all keys fit"


def _some(keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return ", ".join(key if len(key) <= LONGEST else f"{key[:LONGEST]}…" for key in keys[:SHOWN]) + more
