"""Clients that send nothing, too slowly or without end are let go, and the others are answered."""

import asyncio
import socket
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
import uvicorn

from tokenstn.apps import connections
from tokenstn.apps.connections import Crowd, crowd_for

HEAD = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n"


async def echo(scope, receive, send):
    """Answers with the number of bytes of the body; refuses at once what says so."""
    assert scope["type"] == "http"
    size, more = 0, scope["path"] != "/refused"
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    text = str(size).encode()
    head = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": text})


@contextmanager
def listening(crowd):
    """An HTTP server in a thread of its own; the port."""
    config = uvicorn.Config(
        echo, port=0, log_level="error", lifespan="off", loop="asyncio", http=crowd.protocol, ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        until = time.monotonic() + 20
        while not server.started and time.monotonic() < until:
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.4)
    return Crowd(most=8, body_seconds=0.8, answer_seconds=5)


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def send(connection, pieces, pause=0.0):
    for piece in pieces:
        connection.sendall(piece)
        time.sleep(pause)


def answer(connection):
    """The body of one answer."""
    received = b""
    while b"\r\n\r\n" not in received or not received.split(b"\r\n\r\n")[1]:
        piece = connection.recv(1000)
        assert piece, "it was closed"
        received += piece
    return received.split(b"\r\n\r\n")[1]


def closed(connection):
    """Whether the other side has closed, within the time-out of the connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"POST / HT", HEAD % 5 + b"ab"])
def test_a_connection_without_a_whole_request_is_closed(quick, sent):
    with listening(quick) as port, connect(port) as silent:
        silent.sendall(sent)
        start = time.monotonic()
        assert closed(silent) and 0.2 < time.monotonic() - start < 4


def test_a_head_that_trickles_is_closed_too(quick):
    with listening(quick) as port, connect(port) as slow:
        start = time.monotonic()
        with pytest.raises(ConnectionError):
            send(slow, [bytes([byte]) for byte in HEAD * 50], pause=0.05)
        assert time.monotonic() - start < 4


def test_a_head_without_end_is_cut_off(quick):
    with listening(quick) as port, connect(port) as endless:
        endless.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(ConnectionError):
            send(endless, [b"x-more: " + b"y" * 8000 + b"\r\n"] * 1000)


def test_requests_on_a_kept_connection_are_answered_one_after_the_other(quick):
    with listening(quick) as port, connect(port) as kept:
        for size in (0, 3, 200_000, 5):
            kept.sendall(HEAD % size + bytes(size))
            assert answer(kept) == str(size).encode()
            time.sleep(0.2)  # less than a head may take, more than that in all
        assert list(quick.waiting) and closed(kept)


def test_a_request_that_was_refused_early_may_still_send_its_body(quick):
    with listening(quick) as port, connect(port) as large:
        large.sendall((HEAD % 300_000).replace(b"POST /", b"POST /refused"))
        assert answer(large) == b"0"
        large.sendall(bytes(300_000))
        large.sendall(HEAD % 3 + b"abc")
        assert answer(large) == b"3"


def test_a_crowd_of_silent_clients_makes_room_for_those_who_ask(quick):
    with listening(quick) as port, ExitStack() as silent:
        for _ in range(30):
            silent.enter_context(connect(port))
        for k in range(5):
            with connect(port) as asks:
                asks.sendall(HEAD % k + bytes(k))
                assert answer(asks) == str(k).encode()
        assert len(quick.waiting) <= quick.most


def test_there_is_room_for_the_queue_however_few_files_may_be_open(monkeypatch):
    monkeypatch.setattr(connections, "_open_files", lambda: 64)
    assert crowd_for(128, 30, 30).most >= 128
    monkeypatch.setattr(connections, "_open_files", lambda: 10**6)
    assert crowd_for(128, 30, 30).most == connections.MOST
