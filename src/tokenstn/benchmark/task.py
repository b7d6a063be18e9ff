"""A task: one thing that is computed once, with everything that its result depends on and the hash of that.

- classifier: a classifier, trained or taken as it is;
- training: a method trained around a classifier;
- cell: a method × data × seed, judged over the orbits.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from typing import Any, Literal

import tokenstn
from tokenstn.benchmark.tables import Place

Kind = Literal["classifier", "training", "cell"]
SHOWN = 16  # characters of a hash in the name of a folder


@dataclass(frozen=True)
class Task:
    """config: JSON, all that the result depends on, the keys of other tasks included. place, files: where data and
    weights are on this machine, which the result does not depend on. needs: keys of the tasks before it. group: tasks
    that take about as long. label: for people.
    """

    kind: Kind
    config: dict[str, Any]
    place: Place
    label: str
    group: str
    needs: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """SHA-256 of the config."""
        return key_of(self.config)

    @property
    def folder(self) -> str:
        """Name of its folder in the cache."""
        return folder_of(self.kind, self.key)


def canonical(config: dict[str, Any]) -> str:
    """JSON that is the same for equal configs, whatever the order of their keys.

    >>> canonical({"b": 1, "a": [2.0, None]})
    '{"a":[2.0,null],"b":1}'
    """
    return json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def key_of(config: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(config).encode()).hexdigest()


def folder_of(kind: str, key: str) -> str:
    """The folder of a task, such as cell-0123456789abcdef."""
    return f"{kind}-{key[:SHOWN]}"


def versions_that_matter() -> dict[str, str]:
    """Of what computes the figures: another version may compute others."""
    return {"tokenstn": tokenstn.__version__, **{name: metadata.version(name) for name in ("torch", "timm")}}
