"""One drill's findings, written where the page on reliability is rendered from: ``results/reliability/NAME.json``."""

from __future__ import annotations

import json
import platform
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import tokenstn

FOLDER = Path("results/reliability")


@dataclass
class Finding:
    """One promise and what was seen: ``figure`` is what was measured, in words; ``kept`` whether it held."""

    promise: str
    figure: str
    kept: bool


@dataclass
class Drill:
    """A set of promises tried by one command; use it as a context, which measures the time and writes the file.

    The file is ``results/reliability/NAME.json``, or ``path``. A part of a drill that was run again (``part``) replaces
    what it found before, and leaves the rest of the file.
    """

    name: str
    title: str
    findings: list[Finding] = field(default_factory=list)
    path: Path | None = None
    part: bool = False

    def __enter__(self) -> Drill:
        self.start = time.monotonic()
        return self

    def found(self, promise: str, figure: str, kept: bool) -> None:
        """Add a finding and say it."""
        self.findings.append(Finding(promise, figure, kept))
        print(f"{'kept  ' if kept else 'BROKEN'}  {promise}: {figure}", flush=True)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        path = self.path or FOLDER / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {
            "title": self.title,
            "command": " ".join(["python", *map(_word, sys.argv)]),
            "machine": _machine(),
            "versions": {
                "tokenstn": tokenstn.__version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            "seconds": round(time.monotonic() - self.start),
            "findings": [asdict(finding) for finding in self.findings],
        }
        if self.part and path.exists():
            record = _replaced(json.loads(path.read_text(encoding="utf-8")), record)
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written: {path}")
        if not all(finding.kept for finding in self.findings):
            raise SystemExit(1)


def _replaced(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    found = {finding["promise"]: finding for finding in (*whole["findings"], *part["findings"])}
    return {**whole, "seconds": whole["seconds"] + part["seconds"], "findings": list(found.values())}


def _word(given: str) -> str:
    """A word of the command, without the folders of this machine."""
    return f"…/{Path(given).name}" if given.startswith("/") else given


def _machine() -> str:
    threads = f"{platform.machine()}, {torch.get_num_threads()} thread{'s' * (torch.get_num_threads() > 1)}"
    return f"{threads}, {torch.cuda.get_device_name()}" if torch.cuda.is_available() else threads
