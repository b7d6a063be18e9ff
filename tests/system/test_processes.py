"""When a process of several dies, the others say so and end."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from tokenstn.system.processes import DeadProcessError, reading_processes, reads_for_another

FIRST = """
import subprocess, sys, time
from tokenstn.system.processes import Watch
others = [subprocess.Popen([sys.executable, "-c", {other!r}]) for _ in range(2)]
print(*(other.pid for other in others), flush=True)
with Watch(others, "the job is over"):
    time.sleep(60)
"""
OTHER = """
import time
from tokenstn.system.processes import Watch
with Watch([], "the job is over"):
    time.sleep(60)
"""


def started() -> tuple[subprocess.Popen[str], list[int]]:
    script = FIRST.format(other=OTHER)
    first = subprocess.Popen([sys.executable, "-c", script], stdout=-1, stderr=-1, text=True, start_new_session=True)
    assert first.stdout is not None
    others = [int(word) for word in first.stdout.readline().split()]
    time.sleep(1.0)  # they are watching by now
    return first, others


def gone(process: int) -> bool:
    """Whether it has ended, or does so in a moment: its last words arrive before it is gone."""
    for _ in range(100):
        try:
            with open(f"/proc/{process}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks into /proc")
def test_a_dead_rank_ends_the_run_with_a_message():
    first, others = started()
    os.kill(others[1], signal.SIGKILL)
    _, said = first.communicate(timeout=10)
    assert first.returncode == 1
    assert "process 2 of this run was killed by signal 9; perhaps it ran out of memory: the job is over" in said
    assert all(map(gone, others))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks into /proc")
def test_the_others_end_when_the_first_is_killed():
    first, others = started()
    first.kill()
    _, said = first.communicate(timeout=10)
    assert said.count("the first process of this run is gone: the job is over") == 2
    assert all(map(gone, others))


class Suicidal(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> torch.Tensor:
        if place == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(1)


# torch tidies up after the dead one when its loader is collected, and may meet the same signal again there
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_death_of_a_reading_process_is_a_sentence():
    sentence = r"a process that reads images has died .*take fewer --workers"
    with pytest.raises(DeadProcessError, match=sentence), reading_processes():
        list(DataLoader(Suicidal(), num_workers=1))


def test_other_errors_of_torch_are_not_touched():
    with pytest.raises(RuntimeError, match="something else"), reading_processes():
        raise RuntimeError("something else")


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), ConnectionResetError(), EOFError()])
def test_a_reader_says_nothing_when_the_one_it_reads_for_is_gone(error, monkeypatch, capsys):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    reads_for_another(0)
    sys.excepthook(type(error), error, None)
    assert capsys.readouterr().err == ""


def test_a_reader_that_is_wrong_itself_says_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    reads_for_another(0)
    sys.excepthook(KeyError, KeyError("mine"), None)
    assert "mine" in capsys.readouterr().err
