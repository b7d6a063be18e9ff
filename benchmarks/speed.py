"""What a rectifier costs beside the bare classifier: medians of both, taken in turns in one run.

    python benchmarks/speed.py --device cuda --models vit_base_patch16_224 swin_base_patch4_window7_224 --batches 64 256
    python benchmarks/speed.py --device cpu --models vit_small_patch16_224 --batches 1 16

Weights are random: speed does not depend on them. On CUDA everything runs in bfloat16, eager or compiled; on the CPU in
float32, or as --dtype says. Prints a table and writes it as JSON with the machine and the versions.

On CUDA a call is timed in a loop over batches, where the host may be ahead of the GPU, and alone, where it waits after
each call and all that it does before the first kernel counts.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch
from speed_found import RECORDED
from timing import in_turns, write

import tokenstn
from tokenstn.models.reading import usual_reading

LOOP_SECONDS, SHORTEST, LONGEST = 0.4, 5, 50  # of a loop over batches, and how many these are


def main() -> None:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--models", nargs="+", default=["vit_small_patch16_224"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--views", nargs="+", type=int, default=[1, 4, 16], help="not compiled; compiled is one view")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each way of calling, about")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), help="bfloat16 on CUDA, float32 on a CPU")
    parser.add_argument("--compiled", action="store_true", help="compiled instead, which takes a minute for each model")
    parser.add_argument("--mode", default="default", help="of torch.compile, for both")
    parser.add_argument(
        "--readings",
        nargs="*",
        default=[],
        help="SHARED,SHARE,TOKENS: what else a localizer could read, each at one view",
    )
    parser.add_argument("--out", type=Path, default=Path("results/speed.json"))
    options = parser.parse_args()
    options.dtype = options.dtype or ("bfloat16" if options.device == "cuda" else "float32")
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    rows = []
    for name in options.models:
        rows += rows_of(name, options)
    write(options.out, options.device, {"dtype": options.dtype, "rows": rows})


@torch.inference_mode()
def rows_of(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One model: bare, and rectified with some numbers of views, for each batch."""
    dtype = getattr(torch, options.dtype)
    classifier = timm.create_model(name).eval().to(options.device, dtype)
    reading = asdict(usual_reading(classifier, classifier.pretrained_cfg["input_size"][1:]))
    model = tokenstn.TokenSTN(classifier, ("rotation", "scale"), **reading).eval().to(options.device, dtype)
    recorded = copy.copy(model).record()
    others = {
        reading: reading_as(classifier, reading).to(options.device, dtype).record() for reading in options.readings
    }
    call_bare: Callable = classifier
    if options.compiled:
        call_bare = torch.compile(classifier, mode=options.mode)
        model = torch.compile(model, fullgraph=True, mode=options.mode)
    rows = []
    for batch in options.batches:
        images = torch.randn(batch, 3, *recorded.backbone.input_size, device=options.device, dtype=dtype)
        ways = {"bare": partial(call_bare, images)}
        for views in (1,) if options.compiled else options.views:
            ways[f"{views} views"] = partial(model, images, views=views)
        if options.device == "cuda" and not options.compiled:
            ways[RECORDED] = partial(recorded, images, views=1)
        ways |= {reading: partial(other, images, views=1) for reading, other in others.items()}
        alone: dict[str, float] = {}
        loop = 3
        if options.device == "cuda":
            alone, _ = in_turns(ways, options.device, options.seconds / 4, repeats=1)
            loop = max(SHORTEST, min(LONGEST, round(1000 * LOOP_SECONDS / alone["bare"])))
        took, memory = in_turns(ways, options.device, options.seconds, loop)
        for way, milliseconds in took.items():
            rows.append(
                {
                    "model": name, "compiled": options.mode if options.compiled else None, "batch": batch, "way": way,
                    "calls": loop, "ms": round(milliseconds, 3), "ratio": round(milliseconds / took["bare"], 3),
                    "alone_ratio": round(alone[way] / alone["bare"], 3) if alone else None,
                    "peak_mib": memory.get(way),
                }
            )  # fmt: skip
            said = "{model:32} {batch:4} compiled={compiled!s:5} {way:16} {ms:9.2f} ms {ratio:6.3f}×"
            print((said + " (alone {alone_ratio}×)  {peak_mib} MiB").format(**rows[-1]), flush=True)
    return rows


def reading_as(classifier: torch.nn.Module, reading: str) -> tokenstn.TokenSTN:
    """A rectifier that reads so many layers, at a share of the resolution, as a grid of so many tokens a side."""
    shared, share, tokens = reading.split(",")
    settings = {"shared": int(shared), "localization_size": float(share), "localization_tokens": int(tokens)}
    return tokenstn.TokenSTN(classifier, ("rotation", "scale"), **settings).eval()


if __name__ == "__main__":
    main()
