"""The figures of every epoch as ``logs/csv/metrics.csv``, one row each, also of a run that was stopped and went on."""

from __future__ import annotations

import csv
import io
import math
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from tokenstn.system.files import write_text

EPOCH = "epoch"
SECONDS = 1.0  # between two writings: an epoch of a small set takes less than waiting for the disk


class EpochLog(Logger):
    """Lightning's own CSV log begins anew when a run goes on. This one reads what is there, drops what is done again,
    and writes the file as a whole: after an epoch, at most once in ``SECONDS``, and before every checkpoint."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "metrics.csv"
        self._rows: dict[int, dict[str, Any]] | None = None  # by epoch
        self._written = -math.inf

    @property
    def name(self) -> str:
        return "csv"

    @property
    def version(self) -> str:
        return ""

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """They are in ``config.yaml``."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        epoch = int(metrics[EPOCH])
        if self._rows is None:
            self._rows = {at: row for at, row in self._read().items() if at < epoch}
        self._rows.setdefault(epoch, {}).update(metrics, step=step, epoch=epoch)

    @rank_zero_only
    def save(self) -> None:
        """After every epoch, says Lightning."""
        if time.monotonic() - self._written >= SECONDS:
            self.write()

    @rank_zero_only
    def write(self) -> None:
        """What is known, now."""
        if not self._rows:
            return
        names = sorted({name for row in self._rows.values() for name in row})
        text = io.StringIO()
        lines = csv.DictWriter(text, names, lineterminator="\n")
        lines.writeheader()
        lines.writerows(self._rows.values())
        write_text(self.path, text.getvalue())
        self._written = time.monotonic()

    @rank_zero_only
    def finalize(self, status: str) -> None:
        self.write()

    def _read(self) -> dict[int, dict[str, Any]]:
        if not self.path.is_file():
            return {}
        with self.path.open(encoding="utf-8", newline="") as file:
            return {int(row[EPOCH]): dict(row) for row in csv.DictReader(file)}
