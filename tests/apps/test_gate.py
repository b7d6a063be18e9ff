"""What the demo page answers: itself, its events and its uploads. Everything else that Gradio can do is closed."""

import asyncio
import json

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")

from tokenstn.apps.gate import EVENT_BYTES, Gate

HERE, UPLOADS = b"127.0.0.1:7860", "/tmp/gradio"
JOIN = "/gradio_api/queue/join"


async def gradio(scope, receive, send):
    """Gives back what it got."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message.get("body", b"")})


def ask(path, method="GET", body=b"", host=HERE, loopback=True, pieces=1):
    """Status and body of what comes back through the gate."""
    size = -(-len(body) // pieces) or 1
    parts = [body[k : k + size] for k in range(0, len(body), size)] or [b""]
    waiting = [{"type": "http.request", "body": part, "more_body": part is not parts[-1]} for part in parts]
    sent = []

    async def receive():
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": path, "method": method, "headers": [(b"host", host)]}
    asyncio.run(Gate(gradio, loopback, UPLOADS)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"]


@pytest.mark.parametrize(
    "path", ["/", "/config", "/assets/index.js", "/theme.css", "/gradio_api/queue/data", "/gradio_api/heartbeat/abc",
             "/gradio_api/file=/tmp/gradio/abc/photo.png", "/gradio_api/startup-events"],
)  # fmt: skip
def test_the_page_has_what_it_needs(path):
    assert ask(path)[0] == 200 and ask(path, "HEAD")[0] == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/gradio_api/proxy=https://example.org/x"),
        ("GET", "/gradio_api/file=https://example.org/x.png"),
        ("GET", "/gradio_api/file=//example.org/x.png"),
        ("GET", "/gradio_api/file=/etc/passwd"),
        ("GET", "/gradio_api/file=/tmp/gradio/../passwd"),
        ("GET", "/gradio_api/file=/tmp/gradio"),
        ("GET", "/gradio_api/file=/tmp/gradio-of-others/x.png"),
        ("GET", "/gradio_api/file=x.png"),
        ("GET", "/static/../../etc/passwd"),
        ("GET", "/assets//etc/passwd"),
        ("GET", "/static/..\\..\\secret"),
        ("GET", "/gradio_api/runs"),
        ("POST", "/gradio_api/run-history/connect"),
        ("POST", "/gradio_api/vibe-edit"),
        ("POST", "/gradio_api/run/predict"),
        ("POST", "/gradio_api/call/v2/show"),
        ("POST", "/login"),
        ("GET", "/monitoring"),
        ("GET", "/configuration"),
        ("DELETE", "/"),
        ("OPTIONS", "/config"),
        ("GET", "/gradio_api/upload"),
    ],
)
def test_nothing_else_is_answered(method, path):
    assert ask(path, method)[0] == 404


def file_of(path):
    return {"path": path, "meta": {"_type": "gradio.FileData"}}


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/a.png",
        " HTTP://10.0.0.1/",
        "//example.org/a",
        "/etc/passwd",
        "/tmp/gradio/../a",
        "a.png",
        "",
    ],
)
@pytest.mark.parametrize("around", [lambda one: one, lambda one: [[{"deep": one}]], lambda one: {"image": [one]}])
def test_a_file_that_was_not_uploaded_is_not_read(address, around):
    event = json.dumps({"data": [1, around(file_of(address))]}).encode()
    status, reason = ask(JOIN, "POST", event)
    assert status == 400 and b"not fetched from elsewhere" in reason


@pytest.mark.parametrize("pieces", [1, 7])
def test_an_event_of_the_page_passes_as_it_was(pieces):
    event = json.dumps({"data": [30, 1.0, True, file_of("/tmp/gradio/abc/photo.png"), None], "fn_index": 3}).encode()
    assert ask(JOIN, "POST", event, pieces=pieces) == (200, event)


@pytest.mark.parametrize(
    ("body", "status"), [(b"{", 400), (b"[" * 100_000, 400), (b" " * (EVENT_BYTES + 1), 413), (b"\xff", 400)]
)
def test_what_is_no_event_is_refused(body, status):
    assert ask(JOIN, "POST", body, pieces=5)[0] == status


@pytest.mark.parametrize("host", [b"evil.example:7860", b"127.0.0.1.evil.example", b"", b"127.0.0.1@evil.example"])
def test_a_site_whose_name_points_here_is_refused(host):
    assert ask("/", host=host)[0] == 403
    assert ask("/", host=host, loopback=False)[0] == 200  # other machines may call this one as they like


def test_web_sockets_are_closed():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(Gate(gradio, True, UPLOADS)({"type": "websocket", "path": "/"}, None, send))
    assert [message["type"] for message in sent] == ["websocket.close"]
