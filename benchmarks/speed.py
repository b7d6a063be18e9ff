"""What a rectifier costs beside the bare classifier: medians of both, taken in turns in one run.

    python benchmarks/speed.py --device cuda --models vit_base_patch16_224 swin_base_patch4_window7_224 --batches 64 256
    python benchmarks/speed.py --device cpu --models vit_small_patch16_224 --batches 1 16

Weights are random: speed does not depend on them. On CUDA everything runs in bfloat16, eager and compiled; on the CPU
in float32, eager. Prints a table and writes it as JSON with the machine and the versions.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch

import tokenstn
from tokenstn.evaluation.cost import device_name

VIEWS = (1, 4, 16)


def main() -> None:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--models", nargs="+", default=["vit_small_patch16_224"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--seconds", type=float, default=4.0, help="for each way of calling, about")
    parser.add_argument("--compiled", action="store_true", help="also compiled, which takes a minute for each model")
    parser.add_argument("--shared", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results/speed.json"))
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    rows = []
    for name in options.models:
        rows += rows_of(name, options)
    found = {
        "device": device_name(torch.device(options.device)),
        "threads": torch.get_num_threads(),
        "dtype": "bfloat16" if options.device == "cuda" else "float32",
        "versions": {"torch": torch.__version__, "timm": timm.__version__, "python": platform.python_version()},
        "rows": rows,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.out}")


@torch.inference_mode()
def rows_of(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One model: bare, and rectified with 1, 4 and 16 views, for each batch, eager and perhaps compiled."""
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    classifier = timm.create_model(name).eval().to(options.device, dtype)
    model = tokenstn.TokenSTN(classifier, ("rotation", "scale"), shared=options.shared).eval()
    model = model.to(options.device, dtype)
    rows = []
    for compiled in (False, True) if options.compiled else (False,):
        call_bare: Callable = torch.compile(classifier) if compiled else classifier
        call: Callable = torch.compile(model, fullgraph=True) if compiled else model
        for batch in options.batches:
            images = torch.randn(batch, 3, *model.backbone.input_size, device=options.device, dtype=dtype)
            ways = {"bare": partial(call_bare, images)}
            for views in (1,) if compiled else VIEWS:
                ways[f"{views} views"] = partial(call, images, views=views)
            took, memory = in_turns(ways, options.device, options.seconds)
            for way, milliseconds in took.items():
                rows.append(
                    {
                        "model": name, "compiled": compiled, "batch": batch, "way": way, "ms": round(milliseconds, 3),
                        "ratio": round(milliseconds / took["bare"], 3), "peak_mib": memory.get(way),
                    }
                )  # fmt: skip
                print("{model:32} {batch:4} compiled={compiled!s:5} {way:9} {ms:9.2f} ms {ratio:6.2f}×  {peak_mib} MiB"
                      .format(**rows[-1]), flush=True)  # fmt: skip
    return rows


def in_turns(
    ways: dict[str, Callable[[], Any]], device: str, seconds: float
) -> tuple[dict[str, float], dict[str, float]]:
    """The median milliseconds of each way, all measured in turns, and its peak memory in MiB (CUDA)."""
    memory: dict[str, float] = {}
    first: dict[str, float] = {}
    for way, call in ways.items():
        for _ in range(3):  # compiles, picks kernels, fills caches
            call()
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        first[way] = once(call, device)
        if device == "cuda":
            memory[way] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    rounds = max(5, int(seconds / max(first.values())))
    took: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(min(rounds, 200)):
        for way, call in ways.items():
            took[way].append(once(call, device))
    return {way: 1000 * statistics.median(times) for way, times in took.items()}, memory


def once(call: Callable[[], Any], device: str, repeats: int = 3) -> float:
    """Seconds of a call, the mean of a few that follow each other as in a loop over batches."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


if __name__ == "__main__":
    main()
