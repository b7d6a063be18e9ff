"""Whether a port can be had, asked before a model is loaded for it."""

from __future__ import annotations

import socket

FIRST, LAST = 1024, 65535


def require_free(host: str, port: int) -> None:
    """Refuse a port that is none, or that somebody else listens on."""
    if not FIRST <= port <= LAST:
        raise ValueError(f"port {port}: a number from {FIRST} to {LAST}")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ValueError(f"{host}:{port} cannot be had ({error.strerror}): choose another with --port") from None
