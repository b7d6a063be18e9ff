"""The names under which a machine knows itself, and only itself."""

from __future__ import annotations

LOOPBACK = "127.0.0.1"
OWN_NAMES = (LOOPBACK, "localhost", "[::1]")


def is_loopback(host: str) -> bool:
    """Whether what listens on this host is reached from this machine alone."""
    return host in (*OWN_NAMES, "::1")


def asks_for_us(header: str) -> bool:
    """Whether a Host header names this machine as it names itself.

    A site whose name was made to point here leads a browser to loopback, and is betrayed by this header.

    >>> asks_for_us("LOCALHOST:8000"), asks_for_us("[::1]:80"), asks_for_us("127.0.0.1.evil.org")
    (True, True, False)
    """
    whole = header.strip().lower()
    name, _, port = whole.rpartition(":")
    return whole in OWN_NAMES or (port.isdigit() and name in OWN_NAMES)
