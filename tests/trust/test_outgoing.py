"""No test leaves this machine, whoever tries; and libraries that would report on their use are told not to.

``conftest.py`` refuses connections in every test's own process: imports, training, evaluation, prediction. The server
and the demo page run in processes of their own, refused by ``tests/apps/processes.py``.
"""

import os
import socket
import subprocess
import sys

import outgoing
import pytest

from tests.apps.processes import watched
from tokenstn.verbs.telemetry import OFF, no_telemetry

ELSEWHERE = "192.0.2.1"  # kept for documents: nobody is there


@pytest.mark.parametrize("host", [ELSEWHERE, "2001:db8::1", "example.org"])
def test_an_attempt_to_leave_is_refused_and_remembered(host):
    with pytest.raises(ConnectionRefusedError, match="do not leave this machine"):
        socket.create_connection((host, 80), timeout=1)
    assert len(outgoing.TRIED) == 1 and host in outgoing.TRIED[0] and "test_outgoing" in outgoing.TRIED[0]
    outgoing.TRIED.clear()


def test_this_machine_may_be_asked():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
    assert outgoing.TRIED == []


def test_a_process_that_is_started_is_watched_too():
    attempt = f"import socket\ntry: socket.create_connection(('{ELSEWHERE}', 80), timeout=1)\nexcept OSError: pass"
    with pytest.raises(AssertionError, match=ELSEWHERE), watched() as environment:
        subprocess.run([sys.executable, "-c", attempt], env=environment, check=True)


def test_a_file_that_is_opened_is_seen_where_it_is_watched_for(tmp_path):
    path = tmp_path / "of-a-stranger.png"
    opened = f"open({str(path)!r}, 'w').close()"
    with pytest.raises(AssertionError, match="of-a-stranger"), watched(WITNESS_PATHS="of-a-stranger") as environment:
        subprocess.run([sys.executable, "-c", opened], env=environment, check=True)


def test_a_command_turns_telemetry_off_before_anybody_looks():
    """In a fresh process: what huggingface_hub has read is what the command has said."""
    script = (
        "from tokenstn.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "from huggingface_hub import constants\n"
        "assert constants.HF_HUB_DISABLE_TELEMETRY\n"
    )
    kept = {name: value for name, value in os.environ.items() if name not in OFF}
    subprocess.run([sys.executable, "-c", script], env=kept, check=True, stdout=subprocess.DEVNULL)


def test_what_a_person_has_said_about_telemetry_stands(monkeypatch):
    for name in OFF:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "0")
    no_telemetry()
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "0"
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False" and os.environ["DO_NOT_TRACK"] == "1"
