"""What requests of strangers get: without the token, above the limits, and with paths in every place where one fits."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from record import Drill

sys.path.append(str(Path(__file__).parents[2]))
from load import descendants
from tests.apps.test_server import form, png
from tour import ENVIRONMENT, app

from tokenstn.apps.connections import HEAD_BYTES
from tokenstn.apps.embedded import embedded_model

MARK = "of-a-stranger"
TOKEN = "correct horse"
HEAD = "POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\n"
IMAGE = {"Content_Type": "image/png"}


def status_of(address: str, path: str, body: bytes | None = None, **headers: str) -> int:
    asked = urllib.request.Request(f"{address}{path}", body, {name.replace("_", "-"): v for name, v in headers.items()})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


def only_with_the_token(drill: Drill) -> None:
    photo = png(28, 28)
    wrong = ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN} {TOKEN}", f"Bearer {TOKEN.upper()}"]
    wrong += [f"Bearer {TOKEN[:k]}" for k in range(len(TOKEN))]
    wrong += [f"Bearer {TOKEN}{extra}" for extra in ("x", ",", "%00")]
    ENVIRONMENT["TOKENSTN_TOKEN"] = TOKEN
    with app("serve", str(embedded_model())) as (address, _):
        right = status_of(address, "/predict", photo, Authorization=f"Bearer {TOKEN}", **IMAGE)
        found = [status_of(address, "/predict", photo, Authorization=header, **IMAGE) for header in wrong]
        found += [status_of(address, path) for path in ("/metrics", "/info")]
        for host in ("x/health?", "x/docs#", "127.0.0.1/openapi.json?"):
            found.append(raw_status(address, f"{HEAD.replace('127.0.0.1', host)}Content-Length: 0\r\n\r\n"))
    del ENVIRONMENT["TOKENSTN_TOKEN"]
    drill.found(
        "without the token nobody gets an answer, and it is compared in constant time (hmac.compare_digest)",
        f"{found.count(401)} of {len(found)} other headers and paths get 401; the right one {right}",
        right == 200 and set(found) <= {401},
    )


def raw_status(address: str, text: str, more: bytes = b"") -> int:
    """The status that a request gets as it is written; 0 where the connection is closed without one."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        try:
            connection.sendall(text.encode() + more)
            return int(connection.recv(64).split()[1])
        except (OSError, IndexError):
            return 0


def limits(drill: Drill) -> None:
    large = (b"8000\r\n" + bytes(0x8000) + b"\r\n") * 8
    foreign = HEAD.replace("127.0.0.1", "evil.example")
    upgrade = "GET /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    options = ("--max_request_bytes=100000", "--max_pixels=90000")
    with app("serve", str(embedded_model()), *options) as (address, _):
        found = {
            "too many bytes": (status_of(address, "/predict", bytes(200_000), **IMAGE), 413),
            "more than announced": (raw_status(address, f"{HEAD}Transfer-Encoding: chunked\r\n\r\n", large), 413),
            "too many pixels": (status_of(address, "/predict", png(400, 300), **IMAGE), 413),
            "a bomb": (status_of(address, "/predict", png(9000, 9000)[:90_000], **IMAGE), 413),
            "no image": (status_of(address, "/predict", b"no image", **IMAGE), 422),
            "an endless head": (raw_status(address, HEAD, b"x: " + b"y" * (2 * HEAD_BYTES)), 0),
            "another site's name": (raw_status(address, f"{foreign}Content-Length: 0\r\n\r\n"), 403),
            "a web socket": (raw_status(address, upgrade), 405),
        }
    told = ", ".join(f"{what} {status or 'closed'}" for what, (status, _) in found.items())
    kept = all(status == wanted for status, wanted in found.values())
    drill.found("sizes have limits (times: see the server under load)", told, kept)


def listeners(process: int) -> set[str]:
    """The addresses on which a process or one that comes from it listens."""
    table = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    ours = {process, *descendants()}
    return {
        line.split()[3].rpartition(":")[0]
        for line in table.splitlines()
        if any(f"pid={number}," in line for number in ours)
    }


def nothing_is_opened(drill: Drill, folder: Path) -> None:
    """Paths in every place of a request where one fits, while strace writes down what is touched."""
    there = folder / f"{MARK}.png"
    there.write_bytes(png(28, 28))
    paths = [str(there), f"../../../../../../..{there}", f"file://{there}", f"{there}%00.png", f"..%2f{there.name}"]
    logs = [folder / "touched-by-server", folder / "touched-by-page"]
    strace = [("strace", "-D", "-f", "-qq", "-e", "trace=%file", "-o", str(log)) for log in logs]
    tried = 0
    with app("serve", str(embedded_model()), before=strace[0]) as (address, _):
        for path in paths:
            body, kind = form(png(28, 28))
            status_of(address, "/predict", body.replace(b"a.png", path.encode()), Content_Type=kind)
            status_of(address, "/predict", json.dumps({"image": path}).encode(), Content_Type="application/json")
            status_of(address, "/predict", path.encode(), Content_Type="image/png")
            for place in (f"/{path}", f"/docs/{path}", f"/predict?image={path}"):
                status_of(address, urllib.request.quote(place, safe="/?=%."))
            tried += 6
    with app("demo", before=strace[1]) as (address, _):
        for path in paths:
            file = {"path": path, "meta": {"_type": "gradio.FileData"}}
            event = json.dumps({"data": [file], "fn_index": 11, "session_hash": "s"}).encode()
            status_of(address, "/gradio_api/queue/join", event, Content_Type="application/json")
            for place in ("/gradio_api/file=", "/static/", "/assets/", "/gradio_api/proxy="):
                status_of(address, urllib.request.quote(f"{place}{path}", safe="/=%."))
            tried += 5
    lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
    named = [line for line in lines if MARK in line]
    opened = [line for line in named if "open" in line.split("(")[0] and " = -1 " not in line]
    drill.found(
        "no path of a request is opened",
        f"{tried} requests with a path to a file that is there, {len(lines):,} calls on files watched by strace: "
        f"{len(opened)} open it, {len(named) - len(opened)} ask whether it is there",
        not opened and len(lines) > 1000,
    )


def on_loopback(drill: Drill) -> None:
    found = set()
    for words in (("serve", str(embedded_model())), ("demo",)):
        with app(*words) as (_, process):
            found |= listeners(process.pid)
    listening = ", ".join(sorted(found))
    drill.found("server and page are for this machine alone unless told otherwise", listening, found == {"127.0.0.1"})
