"""What the benchmarks have written to results/speed/, and how the page on speed speaks of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOUND = Path(__file__).parents[1] / "results" / "speed"
RECORDED = "1 view, recorded"  # a row of speed.py
Found = dict[str, Any]


def read(name: str) -> Found | None:
    """What a benchmark has found, None where it has not been run."""
    path = FOUND / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def about(found: Found, command: str) -> str:
    """On what it was measured, and how."""
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    return f"`{command}` · {found['device']} · {versions}"


def not_yet(what: str, command: str) -> str:
    """A line in the place of figures."""
    return f"Not measured yet: {what}, `{command}`."
