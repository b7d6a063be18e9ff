"""Take times side by side: all ways of doing a thing in turns, so that what else the machine does hits all alike."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import timm
import torch

from tokenstn.evaluation.cost import device_name


def in_turns(
    ways: dict[str, Callable[[], Any]], device: str, seconds: float, repeats: int = 3, warm_up: int = 3
) -> tuple[dict[str, float], dict[str, float]]:
    """The median milliseconds of each way, all measured in turns, and its peak memory in MiB (CUDA).

    Args:
        seconds: for each way, about.
        repeats: calls that follow each other as in a loop over batches, timed together; the host waits for the last.
        warm_up: calls before: they compile, pick kernels, fill caches.
    """
    memory: dict[str, float] = {}
    first: dict[str, float] = {}
    for way, call in ways.items():
        for _ in range(warm_up):
            call()
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        first[way] = once(call, device, repeats)
        if device == "cuda":
            memory[way] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    rounds = max(5, int(seconds / repeats / max(first.values())))
    took: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(min(rounds, 200)):
        for way, call in ways.items():
            took[way].append(once(call, device, repeats))
    return {way: 1000 * statistics.median(times) for way, times in took.items()}, memory


def once(call: Callable[[], Any], device: str, repeats: int = 1) -> float:
    """Seconds of a call, the mean of a few that follow each other."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def write(path: Path, device: str, found: dict[str, Any]) -> None:
    """Write what was found as JSON, with the machine and the versions."""
    machine = {
        "device": device_name(torch.device(device)),
        "threads": torch.get_num_threads(),
        "versions": {"torch": torch.__version__, "timm": timm.__version__, "python": platform.python_version()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**machine, **found}, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path}")
