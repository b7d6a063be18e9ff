"""One drill's findings, written where the page on reliability is rendered from: ``results/reliability/NAME.json``."""

from __future__ import annotations

import json
import platform
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

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
    """A set of promises tried by one command; use it as a context, which measures the time and writes the file."""

    name: str
    title: str
    findings: list[Finding] = field(default_factory=list)

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
        FOLDER.mkdir(parents=True, exist_ok=True)
        record = {
            "title": self.title,
            "command": " ".join(["python", *sys.argv]),
            "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
            "versions": {
                "tokenstn": tokenstn.__version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            "seconds": round(time.monotonic() - self.start),
            "findings": [asdict(finding) for finding in self.findings],
        }
        path = FOLDER / f"{self.name}.json"
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written: {path}")
        if not all(finding.kept for finding in self.findings):
            raise SystemExit(1)
