"""What a visitor may ask of the demo page: the page itself, its events, its uploads, and nothing else.

Gradio answers more than this page needs: it passes requests on to other hosts, keeps runs in buckets, and fetches any
address that a client names in the place of a file. All of that ends here.
"""

from __future__ import annotations

import json
import os
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tokenstn.apps.loopback import OWN_NAMES, asks_for_us

EVENT_BYTES = 262_144  # numbers and the name of an upload: photos do not travel in events
_API = "/gradio_api"
_EVENTS, _FILE = f"{_API}/queue/join", f"{_API}/file="
# method: what may be asked, as a whole or, with a slash or = at the end, as a beginning
_ALLOWED: dict[str, tuple[str, ...]] = {
    "GET": (
        "/", "/config", "/theme.css", "/manifest.json", "/favicon.ico", "/robots.txt", "/assets/", "/static/",
        "/svelte/", f"{_API}/theme.css", f"{_API}/info", f"{_API}/app_id", f"{_API}/startup-events",
        f"{_API}/heartbeat/", f"{_API}/queue/data", f"{_API}/upload_progress", _FILE,
    ),
    "POST": (_EVENTS, f"{_API}/upload", f"{_API}/reset", f"{_API}/cancel"),
}  # fmt: skip
_ALLOWED["HEAD"] = _ALLOWED["GET"]


class Gate:
    """ASGI middleware in front of Gradio.

    Args:
        loopback: whether only this machine is to reach the page; then a site whose name points here is refused.
        uploads: the folder of what was dropped on the page; no other file is asked for, nor whether there is one.
    """

    def __init__(self, app: ASGIApp, loopback: bool, uploads: str) -> None:
        self.app, self.loopback, self.uploads = app, loopback, os.path.join(os.path.abspath(uploads), "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        problem = self._problem(scope)
        if problem is None and scope["path"].rstrip("/") == _EVENTS:
            body = await _whole(receive)
            problem = self._problem_of_event(body)
            receive = _again(body or b"", receive)
        if problem is None:
            await self.app(scope, receive, send)
        else:
            status, reason = problem
            await JSONResponse({"detail": reason}, status)(scope, receive, send)

    def _problem(self, scope: Scope) -> tuple[int, str] | None:
        headers = dict(scope["headers"])
        if self.loopback and not asks_for_us(headers.get(b"host", b"").decode("latin-1")):
            return 403, f"this page answers requests to {', '.join(OWN_NAMES)} alone"
        path: str = scope["path"]
        known = any(
            path.startswith(one) if one[-1] in "/=" and one != "/" else path in (one, f"{one}/")
            for one in _ALLOWED.get(scope["method"], ())
        )
        plain = not {"..", "."} & set(path.replace("\\", "/").split("/")) and "//" not in path
        _, asks_for_file, file = path.partition(_FILE)
        if not known or not plain or (asks_for_file and not self._was_uploaded(file)):
            return 404, "there is no such page"
        return None

    def _problem_of_event(self, body: bytes | None) -> tuple[int, str] | None:
        if body is None:
            return 413, f"an event has at most {EVENT_BYTES:,} bytes"
        try:
            event = json.loads(body)
        except (ValueError, RecursionError):
            return 400, "an event is JSON"
        if all(self._was_uploaded(path) for path in _paths(event)):
            return None
        return 400, "files are uploaded here, not fetched from elsewhere"

    def _was_uploaded(self, path: str) -> bool:
        return path.startswith(self.uploads) and os.path.normpath(path) == path and "\0" not in path


def _paths(event: Any) -> list[str]:
    """What Gradio would take for the names of files, however deep."""
    found, left = [], [event]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            found += [one["path"]] if isinstance(one.get("path"), str) else []
            left += one.values()
        elif isinstance(one, list):
            left += one
    return found


async def _whole(receive: Receive) -> bytes | None:
    """The body of a request; None when it is too long."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)
        if len(body) > EVENT_BYTES:
            return None
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """Give the body once more, then whatever comes."""
    given = False

    async def first() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return first
