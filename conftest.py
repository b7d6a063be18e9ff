"""For every test: one thread, the same random numbers, and names that examples in docstrings use without importing."""

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("repeatable", derandomize=True)  # the same examples in every run
hypothesis.settings.load_profile("repeatable")
torch.set_num_threads(1)  # the tensors are small: more threads only wait for each other


def pytest_runtest_setup() -> None:
    """A test draws the same numbers whichever tests ran before it in its process."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict) -> None:
    from tokenstn.geometry import Pose

    doctest_namespace.update(torch=torch, Pose=Pose)
