"""Commands as processes of their own: started, killed, waited for, and how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

OFTEN = Path(__file__).with_name("often.py")
LONG = 300.0  # seconds after which a command counts as hanging


@dataclass
class Ended:
    """How a command ended: exit code (negative: by a signal), what it said, and how long that took."""

    code: int
    said: str
    seconds: float

    @property
    def plain(self) -> bool:
        """Whether it ended with words for people."""
        return "Traceback" not in self.said

    @property
    def last(self) -> str:
        """Its last line."""
        return (self.said.strip().splitlines() or [""])[-1]


class Command:
    """``tokenstn`` with some words, in a session of its own."""

    def __init__(self, words: list[str], **environment: str) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it is open as long as the command runs
        self.start = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, str(OFTEN), *words],
            stdout=self._said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )

    def wait(self, seconds: float = LONG) -> Ended | None:
        """How it ended; None where it still runs after so many seconds."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return Ended(self.process.returncode, self.said(), time.monotonic() - self.start)

    def ended(self, seconds: float = LONG) -> Ended:
        """How it ended; one that hangs is killed, and fails the drill."""
        found = self.wait(seconds)
        if found is None:
            self.kill(everyone=True)
            raise SystemExit(f"it hangs: {' '.join(self.process.args[2:])}\n{self.said()}")  # type: ignore[index]
        return found

    def until(self, happened: Callable[[], bool], seconds: float = LONG) -> None:
        """Wait for something that it does."""
        while not happened():
            if self.process.poll() is not None or time.monotonic() - self.start > seconds:
                raise SystemExit(f"it did not come so far: {self.said()}")
            time.sleep(0.05)

    def kill(self, everyone: bool) -> None:
        """``kill -9``: the process alone, whose children then have to notice, or all of them as when the power goes."""
        if everyone:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()

    def children(self) -> list[int]:
        """The processes that it started and that run."""
        listed = Path(f"/proc/{self.process.pid}/task")
        found = [int(word) for thread in listed.iterdir() for word in (thread / "children").read_text().split()]
        return [child for child in found if running(child)]

    def said(self) -> str:
        """What it has said so far."""
        self._said.seek(0)
        return self._said.read()


def running(process: int) -> bool:
    """Whether a process runs; one that has ended and is not yet forgotten does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
