"""Where processes work, and what they see."""

import os

import pytest
import torch

from tokenstn.benchmark.workers import _seeing, seats


@pytest.fixture
def _four_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)


@pytest.mark.usefixtures("_four_gpus")
@pytest.mark.parametrize(
    ("devices", "processes", "gpus"),
    [("auto", None, [0, 1, 2, 3]), (2, None, [0, 1]), ("1,3", 2, [1, 1, 3, 3]), ("1", 3, [0, 0, 0])],
)
def test_cells_are_spread_over_devices(devices, processes, gpus):
    assert [seat.gpu for seat in seats("auto", devices, processes)] == gpus


@pytest.mark.usefixtures("_four_gpus")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="--devices 7: torch sees 4 GPUs"):
        seats("gpu", 7, None)
    with pytest.raises(ValueError, match="0,7"):
        seats("gpu", "0,7", None)


def test_the_cpu_is_shared_and_a_persons_limit_is_kept(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(12)), raising=False)
    assert [seat.threads for seat in seats("cpu", "auto", 3)] == [4, 4, 4]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert [seat.threads for seat in seats("cpu", "auto", 3)] == [2, 2, 2]


def test_a_process_sees_its_own_gpu_alone(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    with _seeing(1):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "7"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5,7"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with _seeing(2):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "2"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
