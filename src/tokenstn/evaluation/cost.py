"""What rectification costs on this machine: parameters, FLOPs, images per second and memory, beside the bare one."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tokenstn.evaluation.method import Method, Sampling, Views
from tokenstn.evaluation.orbit import device_of
from tokenstn.evaluation.results import Cost
from tokenstn.models.onnx import OnnxModel

VIEWS = (0, 1, 2, 4, 8)  # 0 is the bare classifier
ROUNDS = 5

Run = Callable[[Tensor, Views], None]  # one call of the model: images (B, C, H, W) and how many views


@torch.no_grad()
def measure_cost(
    model: Method,
    *,
    batch_size: int = 32,
    views: Views = "auto",
    sampling: Sampling = "probable",
    auto_views: float | None = None,
    seconds: float = 20.0,
    measured: bool = True,
    numbers: Sequence[int] = VIEWS,
) -> Cost:
    """Count and time the model where it is.

    Args:
        batch_size: images of one call; fewer where so many would take too long, the result says how many it were.
        views: with which the peak memory is measured.
        sampling: how a number of views is chosen; "auto" is always the most probable ones.
        auto_views: how many views "auto" used, handed on.
        seconds: about how long the timing may take.
        measured: False gives the parameters alone, at once.
        numbers: of views to count and time; 0 is the bare classifier.
    """
    model.eval()
    device = device_of(model)
    exported = model.info if isinstance(model, OnnxModel) else None
    if exported is not None:
        numbers = (0, exported.views or 1)
    numbers = [n for n in numbers if n == 0 or not model.bare] if measured else []
    run = partial(_run, model, sampling=sampling)
    one = _images(model, 1)
    flops = tuple((n, _flops(run, one, n)) for n in numbers) if exported is None else ()  # torch sees none of those
    throughput: tuple[tuple[int, float], ...] = ()
    peak = bare_peak = None
    if measured:
        work = [count for _, count in flops] or [n + 1.0 for n in numbers]
        batch_size = _affordable(run, _images(model, min(4, batch_size)), batch_size, work, seconds)
        images = _images(model, batch_size)
        throughput = _throughput(run, images, numbers)
        bare_peak = _peak_memory_mb(run, images, 0)
        peak = _peak_memory_mb(run, images, views) if not model.bare else bare_peak
    return Cost(
        parameters=_count(model) if exported is None else exported.parameters,
        trainable_parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
        localizer_parameters=_localizer_parameters(model),
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


def _run(model: Method, images: Tensor, views: Views, sampling: Sampling) -> None:
    if views == 0:
        model.classify(images, {})
    elif sampling == "random" and views != "auto":
        model(images, views=views, sampling=sampling)
    else:
        model(images, views=views)


def _flops(run: Run, image: Tensor, views: int) -> float:
    """FLOPs of one image. The counter does not see fused attention, so it counts with the math kernel."""
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        run(image, views)
    return float(counter.get_total_flops())


def _affordable(run: Run, few: Tensor, batch_size: int, work: Sequence[float], seconds: float) -> int:
    """As many images as let the rounds end in time, judged by the bare classifier's speed on a few.

    work: of each number of views that is timed, in any unit, the bare classifier first.
    """
    run(few, 0)
    one_image = _timed(run, few, 0) / len(few)
    bare = max(work[0], 1.0)
    one_round = one_image * sum(max(count / bare, 1.0) for count in work)
    return max(1, min(batch_size, int(seconds / ((ROUNDS + 1) * max(one_round, 1e-9)))))


def _throughput(run: Run, images: Tensor, numbers: Sequence[int]) -> tuple[tuple[int, float], ...]:
    """Images per second, the median of rounds in which all take turns: a busy moment slows all of them alike."""
    for n in numbers:
        run(images, n)
    times: dict[int, list[float]] = {n: [] for n in numbers}
    for _ in range(ROUNDS):
        for n in numbers:
            times[n].append(_timed(run, images, n))
    return tuple((n, len(images) / median(times[n])) for n in numbers)


def _timed(run: Run, images: Tensor, views: Views) -> float:
    synchronise(images.device)
    start = time.perf_counter()
    run(images, views)
    synchronise(images.device)
    return time.perf_counter() - start


def _peak_memory_mb(run: Run, images: Tensor, views: Views) -> float | None:
    """The most memory that was held during one call, the model included; None where torch does not say."""
    if images.device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(images.device)
    run(images, views)
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


def _localizer_parameters(model: Method) -> int:
    if isinstance(model, OnnxModel):
        return model.info.localizer_parameters
    return 0 if model.localizer is None else _count(model.localizer)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
