"""Signals: remembered by a loop that can stop, and exit codes that a shell knows."""

import os
import signal
import subprocess
import sys

import pytest

from tokenstn.system.stopping import Stopped, StopRequest, terminated_like_interrupted


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_is_remembered_and_the_second_stops_at_once(number, code):
    before = signal.getsignal(number)
    with StopRequest() as request:
        os.kill(os.getpid(), number)
        assert request.asked == number
        with pytest.raises(Stopped) as stopped:
            os.kill(os.getpid(), number)
        assert stopped.value.code == code
    assert signal.getsignal(number) == before


def test_a_signal_that_was_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest() as request:
            os.kill(os.getpid(), signal.SIGINT)
            assert request.asked is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_sigterm_lets_files_in_work_be_removed(tmp_path):
    with pytest.raises(Stopped, match="stopped by SIGTERM"), terminated_like_interrupted():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


FORKED = """
import os, signal, time
from tokenstn.system.stopping import terminated_like_interrupted
with terminated_like_interrupted():
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, b"!")  # a signal in the middle of a fork is lost
        try:
            time.sleep(30)
        finally:
            print("the child ran on", flush=True)
    os.read(ready, 1)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_ends_as_it_would_have():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=20)
    assert done.stdout == f"{-signal.SIGTERM}\n"
