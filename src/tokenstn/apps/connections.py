"""Clients that open a connection and send nothing, or next to nothing, do not keep others out.

uvicorn waits for the head of a request for ever, takes heads of any length, and has no limit on connections but the
number of files that a process may open. Here every step has a time, a head has a size, and when there are too many
connections the one that has waited longest for its client goes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0  # for the head of a request, from the connection or from the last answer
HEAD_BYTES = 65_536
MOST = 4096  # connections
SPARE_FILES = 128  # that the process opens for itself


@dataclass
class Crowd:
    """The connections of one server: at most ``most``, and how many seconds a body and an answer may take."""

    most: int
    body_seconds: float
    answer_seconds: float
    waiting: dict[Connection, None] = field(default_factory=dict)  # for their client, the longest first

    @property
    def protocol(self) -> Callable[..., asyncio.Protocol]:
        """What uvicorn makes for every connection."""
        return partial(Connection, crowd=self)

    def make_room(self, open_now: int) -> None:
        """Close whoever has waited longest, when there are too many."""
        if open_now > self.most and self.waiting:
            next(iter(self.waiting)).leave()


def crowd_for(queue: int, body_seconds: float, answer_seconds: float) -> Crowd:
    """As many connections as this process may open files, less its own."""
    return Crowd(max(queue + 16, min(MOST, _open_files() - SPARE_FILES)), body_seconds, answer_seconds)


class Connection(HttpToolsProtocol):
    """uvicorn's, with an alarm clock: it rings when the step that the connection is in takes too long."""

    def __init__(self, *arguments: object, crowd: Crowd, **settings: object) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]
        self.crowd = crowd
        self.alarm: asyncio.TimerHandle | None = None
        self.head_bytes: int | None = None  # of a head that has begun and not ended
        self.arrived = False  # all of the request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_client()
        self.crowd.make_room(len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_alarm()
        self.crowd.waiting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        began = self.head_bytes is not None
        super().data_received(data)
        if began and self.head_bytes is not None:  # and has not ended yet
            self.head_bytes += len(data)
            if self.head_bytes > HEAD_BYTES:
                self.leave()

    def on_message_begin(self) -> None:
        self.head_bytes, self.arrived = 0, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.head_bytes = None
        self._set_alarm(self.crowd.body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.arrived = True
        if self.cycle is not None and self.cycle.response_complete:  # refused before it had arrived
            self._wait_for_client()
        else:
            self.crowd.waiting.pop(self, None)
            self._set_alarm(self.crowd.answer_seconds)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.arrived:
            self._wait_for_client()

    def leave(self) -> None:
        """Close the connection, whatever is still on its way."""
        self.crowd.waiting.pop(self, None)
        self.transport.abort()

    def _wait_for_client(self) -> None:
        """It is the client's turn; its place in the row is its own until all of its request is there."""
        self.crowd.waiting.pop(self, None)
        self.crowd.waiting[self] = None
        self._set_alarm(HEAD_SECONDS)

    def _set_alarm(self, seconds: float) -> None:
        self._stop_alarm()
        self.alarm = self.loop.call_later(seconds, self.leave)

    def _stop_alarm(self) -> None:
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None


def _open_files() -> int:
    """How many files a process may have open; sockets count."""
    if sys.platform == "win32":
        return 512
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST + SPARE_FILES if files == resource.RLIM_INFINITY else files
