"""For every test: one thread, and names that the examples in docstrings may use without importing them."""

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("repeatable", derandomize=True)  # the same examples in every run
hypothesis.settings.load_profile("repeatable")
torch.set_num_threads(1)  # the tensors are small: more threads only wait for each other


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict) -> None:
    from tokenstn.geometry import Pose

    doctest_namespace.update(torch=torch, Pose=Pose)
