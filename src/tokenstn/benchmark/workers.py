"""Processes that run tasks, one GPU or a share of the CPU each. One that dies takes its own task along and no other."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

from tokenstn.benchmark.task import Task
from tokenstn.system.files import REMEDIES
from tokenstn.system.processes import how_it_ended, usable_cores


@dataclass(frozen=True)
class Seat:
    """Where a process works: the number of its GPU, None for the CPU, and how many threads it may use."""

    gpu: int | None = None
    threads: int = 1


@dataclass(frozen=True)
class Outcome:
    """What became of a task; reason: one line, trace: all of it, where it failed.

    hopeless: it could not be written, as on a full disk, and so it would be with every other.
    """

    task: Task
    seconds: float
    reason: str = ""
    trace: str = ""
    hopeless: bool = False

    @property
    def failed(self) -> bool:
        """Whether there is no result."""
        return bool(self.reason)


def seats(accelerator: str, devices: int | str, processes: int | None) -> list[Seat]:
    """One seat for each process. devices: auto, how many GPUs, or their numbers, as 0,2.

    >>> seats("cpu", "auto", 1)[0].gpu is None
    True
    """
    import torch

    if accelerator not in ("auto", "cpu", "gpu", "cuda"):
        raise ValueError(f"--accelerator {accelerator}: cpu, gpu or auto")
    if processes is not None and processes < 1:
        raise ValueError(f"--processes {processes}: at least 1, on each device")
    there = 0 if accelerator == "cpu" else torch.cuda.device_count()
    cores = usable_cores()
    if not there:
        if accelerator in ("gpu", "cuda"):
            raise ValueError(f"--accelerator {accelerator}: torch sees no GPU here; use cpu or auto")
        number = min(cores, 8) if processes is None else processes
        return [Seat(None, _threads(cores, number))] * number
    text = str(devices)
    if text == "auto":
        chosen = list(range(there))
    elif "," in text:
        chosen = [int(number) for number in text.split(",") if number.strip()]
    else:
        chosen = list(range(int(text)))
    if not chosen or max(chosen) >= there:
        raise ValueError(f"--devices {devices}: torch sees {there} GPU{'s' if there > 1 else ''}, numbered from 0")
    each = 1 if processes is None else processes
    threads = _threads(cores, len(chosen) * each)
    return [Seat(gpu, threads) for gpu in chosen for _ in range(each)]


def _threads(cores: int, processes: int) -> int:
    """A fair share of the cores, and no more than a person allows with OMP_NUM_THREADS."""
    share, allowed = max(1, cores // processes), os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(allowed)) if allowed.isdecimal() and int(allowed) else share


class Worker:
    """A process that waits for tasks."""

    def __init__(self, seat: Seat, cache: str, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, seat, cache, workers), daemon=not workers)
        self.task: Task | None = None
        with _seeing(seat.gpu):
            self.process.start()
        other.close()

    def give(self, task: Task) -> None:
        """Let it run a task."""
        self.task = task
        self.connection.send(task)

    def take(self) -> Outcome:
        """What became of its task; where the process died, that is the reason."""
        assert self.task is not None
        task, self.task = self.task, None
        try:
            return Outcome(task, *self.connection.recv())
        except (EOFError, OSError):
            self.process.join(5)
            why = how_it_ended(self.process.exitcode)
            hint = ": try fewer --processes" if self.process.exitcode == -signal.SIGKILL else ""
            return Outcome(task, 0.0, f"its process {why}{hint}", f"the process {why}\n")

    @property
    def alive(self) -> bool:
        """Whether it can take a task."""
        return self.process.is_alive()

    def stop(self) -> None:
        """End the process, whatever it does; a training in it has the time to write a checkpoint."""
        self.connection.close()
        if self.process.is_alive():
            self.process.terminate()
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def finished(workers: list[Worker]) -> Iterator[Worker]:
    """Those that have something to say; waits until there is one."""
    busy = {worker.connection: worker for worker in workers if worker.task is not None}
    for ready in wait(list(busy)):
        assert isinstance(ready, Connection)
        yield busy[ready]


def run_here(task: Task, cache: str, accelerator: Literal["cpu", "gpu"], workers: int) -> tuple[float, str, str, bool]:
    """Run a task in this process: seconds, and the reason, the trace and whether it is hopeless, where it failed."""
    from tokenstn.benchmark.cache import Cache
    from tokenstn.benchmark.run import Equipment, run_task

    kept = Cache(cache)
    try:
        found: dict[str, Any] = run_task(task, kept, Equipment(accelerator, workers))
        return found["seconds"], "", "", False
    except Exception as error:  # a cell may fail in any way, and the others go on
        trace = traceback.format_exc()
        first = str(error).strip().split("\n")[0]
        if isinstance(error, OSError) and error.errno in REMEDIES:
            return 0.0, first, trace, True
        kept.fail(task, trace)
        return 0.0, f"{type(error).__name__}: {first}" if first else type(error).__name__, trace, False


def _serve(connection: Connection, seat: Seat, cache: str, workers: int) -> None:
    """The life of a worker."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever interrupts the bench ends its workers too
    import torch

    torch.set_num_threads(seat.threads)
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(run_here(task, cache, "cpu" if seat.gpu is None else "gpu", workers))


@contextmanager
def _seeing(gpu: int | None) -> Iterator[None]:
    """Processes that are started here see one GPU and no other; None changes nothing."""
    if gpu is None:
        yield
        return
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    listed = [name for name in (before or "").split(",") if name.strip()]
    os.environ["CUDA_VISIBLE_DEVICES"] = listed[gpu] if gpu < len(listed) else str(gpu)
    try:
        yield
    finally:
        if before is None:
            del os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


def _end_with_parent() -> None:
    """A killed bench must not leave processes that go on writing into its cache."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
