"""Who is let in."""

import hmac

import pytest

pytest.importorskip("litserve", reason="litserve is not installed")

from fastapi import HTTPException, Request

import tokenstn
from tokenstn.apps.front import Rules
from tokenstn.apps.loopback import LOOPBACK
from tokenstn.apps.server import ServerSettings
from tokenstn.apps.upload import Limits, Room, Share


def rules(token=None, loopback=True):
    return Rules(Limits(1000, 1000), queue=1, timeout=1.0, token=token, loopback=loopback)


def request(path="/predict", **headers):
    lines = [(name.encode(), value.encode("latin-1")) for name, value in {"host": "127.0.0.1:8000", **headers}.items()]
    return Request({"type": "http", "method": "POST", "path": path, "headers": lines, "query_string": b""})


def status(allowed, asked):
    try:
        allowed.authorize(asked)
    except HTTPException as refused:
        return refused.status_code
    return 200


def test_the_token_is_compared_in_constant_time(monkeypatch):
    compared = []

    def compare(one, other):
        compared.append((one, other))
        return real(one, other)

    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    guarded = rules("secret")
    for given in ("s", "secre", "secret!", "Secret", ""):
        assert status(guarded, request(authorization=f"Bearer {given}")) == 401
    assert status(guarded, request(authorization="bearer secret")) == 200
    assert len(compared) == 6 and all(b"secret" in pair for pair in compared)


@pytest.mark.parametrize("header", ["", "secret", "Basic secret", "Bearer", "Bearer s\xe9cret", "Bearer secret secret"])
def test_no_other_header_opens(header):
    assert status(rules("secret"), request(authorization=header)) == 401


@pytest.mark.parametrize("host", ["x/health?", "x/docs#", "127.0.0.1:8000/health?", "/health", "x@y/docs;"])
def test_a_path_in_the_name_of_the_host_opens_nothing(host):
    assert status(rules("secret"), request(host=host)) == 401


def test_a_page_of_another_site_does_not_reach_a_server_without_a_token():
    for host in ("evil.example", "127.0.0.1.evil.example:8000", ""):
        assert status(rules(), request(host=host)) == 403
        assert status(rules("secret"), request(host=host, authorization="Bearer secret")) == 200
        assert status(rules(loopback=False), request(host=host)) == 200
    for host in ("127.0.0.1:8000", "localhost:9", "LocalHost", "[::1]:8000"):
        assert status(rules(), request(host=host)) == 200


@pytest.mark.parametrize("token", ["pä", "a\nb", "a\x00", "\udcff"])
def test_a_token_that_no_header_carries_is_refused(token):
    with pytest.raises(ValueError, match="ASCII"):
        ServerSettings(token=token)


def test_both_apps_are_for_this_machine_unless_told_otherwise():
    import inspect

    assert ServerSettings().host == LOOPBACK
    for verb in (tokenstn.serve, tokenstn.demo):
        assert inspect.signature(verb).parameters["host"].default == LOOPBACK


def test_requests_share_a_room_and_leave_it():
    room = Room(100)
    with Share(room) as one, Share(room) as other:
        one.take(60)
        other.take(40)
        with pytest.raises(HTTPException, match="100 bytes of requests"):
            other.take(1)
        assert room.taken == 100
    assert room.taken == 0


def test_a_request_that_is_refused_gives_its_room_back():
    room = Room(100)
    with pytest.raises(HTTPException, match="100 bytes"), Share(room) as share:
        [share.take(30) for _ in range(4)]
    assert room.taken == 0
