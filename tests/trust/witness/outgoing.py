"""Refuses every connection that leaves this machine, and remembers who tried: libraries swallow the refusal.

In a test's own process ``conftest.py`` calls :func:`refuse`; a process that is started finds ``sitecustomize.py`` in
this folder when it is on its PYTHONPATH, and writes what it sees to the file named by WITNESS.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

TRIED: list[str] = []  # in a test's own process: to reach other machines, and from where
LOG = "WITNESS"
WATCHED = "WITNESS_PATHS"  # opened files whose path holds this are written down too
TO_ADDRESS = ("socket.connect", "socket.sendto", "socket.sendmsg")
TO_NAME = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")


def stays_here(host: Any) -> bool:
    """Whether an address or a name is this machine's own.

    >>> stays_here("127.0.0.1"), stays_here("::1"), stays_here("localhost"), stays_here(None), stays_here("10.0.0.1")
    (True, True, True, True, False)
    """
    text = host.decode(errors="replace") if isinstance(host, bytes) else host
    if text in (None, "", "localhost", "0.0.0.0", "::", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(str(text).split("%")[0]).is_loopback
    except ValueError:
        return False


def refuse(tell: Callable[[str], None]) -> None:
    """From now on in this process, for good: an audit hook cannot be taken away."""
    watched = os.environ.get(WATCHED)

    def look(event: str, values: tuple[Any, ...]) -> None:
        if event in TO_ADDRESS:
            address = values[1]
            if isinstance(address, tuple) and address and not stays_here(address[0]):
                _stop(tell, f"{event} {address[0]}:{address[1]}")
        elif event in TO_NAME:
            if not stays_here(values[0]):
                _stop(tell, f"{event} {values[0]}")
        elif event == "open" and watched and watched in str(values[0]):
            tell(f"open {values[0]}")

    sys.addaudithook(look)


def _stop(tell: Callable[[str], None], what: str) -> None:
    caller = "".join(traceback.format_stack(limit=12)[:-2])
    tell(f"{what}\n{caller}")
    raise ConnectionRefusedError(f"{what}: tests do not leave this machine")
