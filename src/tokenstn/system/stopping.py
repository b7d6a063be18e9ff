"""A run that is told to stop: SIGTERM, and Ctrl-C (SIGINT). The exit code is 128 and the number of the signal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(SystemExit):
    """Ends a process that was told to stop. ``sentence`` says what there is, and how to go on; it may be empty."""

    def __init__(self, number: int, sentence: str = "") -> None:
        super().__init__(128 + number)
        self.number = number
        self.sentence = sentence or f"stopped by {signal.Signals(number).name}"

    def __str__(self) -> str:
        return self.sentence


class StopRequest:
    """Remembers the first signal, for a loop that looks at ``asked`` where it can stop; the second one stops at once.

    A signal that is ignored, as in processes that others end, stays so. Only the main thread gets signals.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in SIGNALS}
            self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before = {}

    def listen(self) -> None:
        """Take the signals (again, where a library has taken them in between)."""
        for number, before in self._before.items():
            if before is not signal.SIG_IGN:
                signal.signal(number, self._remember)

    def _remember(self, number: int, _: FrameType | None) -> None:
        if self.asked is not None:
            raise Stopped(number)
        self.asked = number


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM raises ``Stopped``, so that files in work are removed and processes ended, as with Ctrl-C."""
    handler = _raise_in(os.getpid())
    mine = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if mine:
        signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _raise_in(process: int) -> Callable[[int, FrameType | None], None]:
    """A handler that raises in one process; one that was forked from it ends as it would have without."""

    def handler(number: int, _: FrameType | None) -> None:
        if os.getpid() != process:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        raise Stopped(number)

    return handler
