"""Processes that belong together: when one dies, the others end, with a message instead of a wait without end."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from types import TracebackType
from typing import ClassVar

GLANCE = 0.5  # seconds between two looks at the others


class DeadProcessError(ChildProcessError):
    """A process that this one needs has died; the message says which, how, and what to do."""


def usable_cores() -> int:
    """How many cores this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def how_it_ended(code: int | None) -> str:
    """The exit code of a process in words.

    >>> how_it_ended(-9), how_it_ended(3)
    ('was killed by signal 9; perhaps it ran out of memory', 'ended with exit code 3')
    """
    if code is not None and code < 0:
        return f"was killed by signal {-code}{'; perhaps it ran out of memory' if code == -signal.SIGKILL else ''}"
    return f"ended with exit code {code}"


@contextmanager
def reading_processes() -> Iterator[None]:
    """While images are read by processes of a DataLoader: the death of one as a sentence."""
    try:
        yield
    except (RuntimeError, OSError, EOFError) as error:
        if not (str(error).startswith("DataLoader worker") or _while_receiving(error)):
            raise
        reason = str(error).split("\n")[0].rstrip(". ")
        raise DeadProcessError(
            f"a process that reads images has died ({reason}): it may have run out of memory; take fewer --workers, or "
            "0 to read in the main process, and call it again: what was finished is kept"
        ) from error


def reads_for_another(_: int = 0) -> None:
    """In a process of a DataLoader (its ``worker_init_fn``): no word when the one that it reads for is gone.

    A thread that hands over images would print how its connection broke, after that one has said why it ended.
    """
    say = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, ConnectionError | EOFError):
            say(kind, error, trace)

    sys.excepthook = hook


def _while_receiving(error: BaseException) -> bool:
    """Whether the other end of a queue was gone: then torch has not noticed yet that its worker is dead."""
    if not isinstance(error, ConnectionError | EOFError | FileNotFoundError):
        return False
    places = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(Path(place).parts[-2:] == ("multiprocessing", "connection.py") for place in places)


class Watch:
    """Looks after the processes that a launcher has started, and in those after the one that has started them.

    Collectives of torch wait for a rank that has died, on a GPU for half an hour, or break with words of their own.
    Here the first process says which one died and ends itself and all others with exit code 1; the others end when the
    first is gone.
    """

    _every: ClassVar[list[Popen[bytes]]] = []  # a second launcher finds them running, and does not know them

    def __init__(self, started: Sequence[Popen[bytes]], says: str) -> None:
        Watch._every += [process for process in started if process not in Watch._every]
        self._started, self._says = [process for process in Watch._every if process.returncode != 0], says
        self._parent = os.getppid()
        self._over = threading.Event()
        self._is_first = bool(self._started)

    def __enter__(self) -> Watch:
        threading.Thread(target=self._look, daemon=True, name="watch").start()
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        if kind is not None and issubclass(kind, RuntimeError):
            time.sleep(4 * GLANCE)  # if that is because another one died, this is the time to be ended for it
        self._over.set()

    def _look(self) -> None:
        while not self._over.wait(GLANCE):
            if self._is_first:
                dead = [process for process in self._started if process.poll()]
                if dead:
                    self._end(dead[0])
            elif os.getppid() != self._parent:
                self._leave(f"the first process of this run is gone: {self._says}")

    def _end(self, dead: Popen[bytes]) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
        number = 1 + self._started.index(dead)
        self._leave(f"process {number} of this run {how_it_ended(dead.returncode)}: {self._says}")

    def _leave(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)
        os._exit(1)  # the main thread may be waiting for a collective, and hears nothing
