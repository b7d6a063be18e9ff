"""What rectification costs on this machine: parameters, FLOPs, images per second and memory, beside the bare one."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tokenstn.evaluation.method import Method
from tokenstn.evaluation.orbit import Views, device_of
from tokenstn.evaluation.results import Cost

VIEWS = (0, 1, 2, 4, 8)  # 0 is the bare classifier
ROUNDS = 5


@torch.no_grad()
def measure_cost(
    model: Method,
    *,
    batch_size: int = 32,
    views: Views = "auto",
    auto_views: float | None = None,
    seconds: float = 20.0,
    measured: bool = True,
) -> Cost:
    """Count and time the model where it is.

    Args:
        batch_size: images of one call; fewer where so many would take too long, the result says how many it were.
        views: with which the peak memory is measured.
        auto_views: how many views "auto" used, handed on.
        seconds: about how long the timing may take.
        measured: False gives the parameters alone, at once.
    """
    model.eval()
    device = device_of(model)
    numbers = [n for n in VIEWS if n == 0 or not model.bare] if measured else []
    flops = tuple((n, _flops(model, n)) for n in numbers)
    throughput: tuple[tuple[int, float], ...] = ()
    peak = bare_peak = None
    if measured:
        batch_size = _affordable(model, batch_size, flops, seconds)
        images = _images(model, batch_size)
        throughput = _throughput(model, images, numbers)
        bare_peak = _peak_memory_mb(model, images, 0)
        peak = _peak_memory_mb(model, images, views) if not model.bare else bare_peak
    return Cost(
        parameters=_count(model),
        trainable_parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
        localizer_parameters=0 if model.localizer is None else _count(model.localizer),
        flops=flops,
        throughput=throughput,
        batch_size=batch_size,
        peak_memory_mb=peak,
        bare_peak_memory_mb=bare_peak,
        auto_views=auto_views,
        device=device_name(device),
    )


def device_name(device: torch.device) -> str:
    """A device in words, such as a GPU's name, or the processor and its threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({platform.processor() or platform.machine()}, {torch.get_num_threads()} threads)"


def synchronise(device: torch.device) -> None:
    """Wait until the device is done, so that a clock shows what was computed and not what was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _run(model: Method, images: Tensor, views: Views) -> None:
    if views == 0:
        model.classify(images, {})
    else:
        model(images, views=views)


def _flops(model: Method, views: int) -> float:
    """FLOPs of one image. The counter does not see fused attention, so it counts with the math kernel."""
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        _run(model, _images(model, 1), views)
    return float(counter.get_total_flops())


def _affordable(model: Method, batch_size: int, flops: Sequence[tuple[int, float]], seconds: float) -> int:
    """As many images as let the rounds end in time, judged by the bare classifier's speed on a few."""
    few = _images(model, min(4, batch_size))
    _run(model, few, 0)
    one_image = _timed(model, few, 0) / len(few)
    bare = max(flops[0][1], 1.0)
    one_round = one_image * sum(max(count / bare, 1.0) for _, count in flops)
    return max(1, min(batch_size, int(seconds / ((ROUNDS + 1) * max(one_round, 1e-9)))))


def _throughput(model: Method, images: Tensor, numbers: Sequence[int]) -> tuple[tuple[int, float], ...]:
    """Images per second, the median of rounds in which all take turns: a busy moment slows all of them alike."""
    for n in numbers:
        _run(model, images, n)
    times: dict[int, list[float]] = {n: [] for n in numbers}
    for _ in range(ROUNDS):
        for n in numbers:
            times[n].append(_timed(model, images, n))
    return tuple((n, len(images) / median(times[n])) for n in numbers)


def _timed(model: Method, images: Tensor, views: Views) -> float:
    synchronise(images.device)
    start = time.perf_counter()
    _run(model, images, views)
    synchronise(images.device)
    return time.perf_counter() - start


def _peak_memory_mb(model: Method, images: Tensor, views: Views) -> float | None:
    """The most memory that was held during one call, the model included; None where torch does not say."""
    if images.device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(images.device)
    _run(model, images, views)
    return torch.cuda.max_memory_allocated(images.device) / 2**20


def _images(model: Method, count: int) -> Tensor:
    """Noise of the model's size and type, always the same."""
    parameter: Any = next(model.parameters(), torch.zeros(()))
    shape = (count, _channels(model), *model.backbone.input_size)
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return noise.to(device=parameter.device, dtype=parameter.dtype)


def _channels(model: Method) -> int:
    if model.backbone.channels is not None:
        return model.backbone.channels
    return 3 if model.preprocessing is None else len(model.preprocessing.mean)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
