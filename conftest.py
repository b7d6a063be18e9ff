"""For every test: one thread, the same random numbers, no connection that leaves this machine, and names that examples
in docstrings use without importing."""

import signal
import sys
from pathlib import Path

import hypothesis
import pytest
import torch

sys.path.append(str(Path(__file__).parent / "tests" / "trust" / "witness"))
import outgoing

outgoing.refuse(outgoing.TRIED.append)

hypothesis.settings.register_profile("repeatable", derandomize=True)  # the same examples in every run
hypothesis.settings.load_profile("repeatable")
torch.set_num_threads(1)  # the tensors are small: more threads only wait for each other
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell ignores Ctrl-C for what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup() -> None:
    """A test draws the same numbers whichever tests ran before it in its process."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _nobody_else_is_asked():
    """What a library has tried and kept to itself fails the test, too."""
    yield
    tried = "\n".join(outgoing.TRIED)
    outgoing.TRIED.clear()
    assert not tried, f"other machines were asked:\n{tried}"


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict) -> None:
    from tokenstn.geometry import Pose

    doctest_namespace.update(torch=torch, Pose=Pose)
