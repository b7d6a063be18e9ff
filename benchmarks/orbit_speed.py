"""What an evaluation over an orbit costs beside plain inference on as many images, and whether its memory grows.

    python benchmarks/orbit_speed.py --device cuda --model vit_base_patch16_224 --photos 512 --order 256

Both ask the bare and the rectified classifier about the same number of images of the same size, in the same batches;
plain inference reads nothing and judges nothing. Weights and pixels are random: speed does not depend on them.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import timm
import torch
from timing import once, write

import tokenstn
from tokenstn.data import ImageTable
from tokenstn.evaluation.orbit import answer_orbit
from tokenstn.evaluation.photos import load_photos
from tokenstn.geometry import rotation_group

ROUNDS = 3


def main() -> None:
    """Parse, measure in turns, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", default="vit_base_patch16_224")
    parser.add_argument("--photos", type=int, default=512)
    parser.add_argument("--order", type=int, default=256)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--out", type=Path, default=Path("results/orbit_speed.json"))
    options = parser.parse_args()
    device, precision = options.device, torch.bfloat16 if options.device == "cuda" else torch.float32
    torch.manual_seed(0)
    classifier = timm.create_model(options.model)
    model = tokenstn.TokenSTN(classifier, ("rotation",)).eval().to(device).record()
    assert model.preprocessing is not None
    size = model.preprocessing.size
    pixels = torch.randint(0, 256, (options.photos, 3, *size), dtype=torch.uint8)
    names = tuple(map(str, range(classifier.num_classes)))
    labels = torch.randint(0, len(names), (options.photos,))
    table = ImageTable("random", pixels, labels, names, {"test": torch.arange(options.photos)})
    photos = load_photos(table, table.split("test"), model.preprocessing, options.batch)
    batches = len(photos) * options.order
    images = torch.randn(options.batch, 3, *size, device=device)

    @torch.no_grad()
    def plain() -> None:
        for _ in range(batches):
            model.classify(images, {})
            model(images, views=1)

    def orbit(order: int = options.order) -> None:
        answer_orbit(model, photos, rotation_group(order), views=1, device=device)

    memory = {}
    with torch.autocast(device, precision, enabled=device == "cuda"):
        for order in (1, 16, options.order):
            if device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            orbit(order)
            memory[order] = round(torch.cuda.max_memory_allocated() / 2**20, 1) if device == "cuda" else None
        took = [(once(plain, device), once(orbit, device)) for _ in range(ROUNDS)]
    count = options.photos * options.order
    alone, over = (count / statistics.median(column) for column in zip(*took, strict=True))
    print(f"plain inference {alone:,.0f} images/s, orbit of {options.order} {over:,.0f} images/s: {over / alone:.3f}")
    print("peak memory in MiB by order:", memory)
    found = {"model": options.model, "photos": options.photos, "order": options.order, "batch": options.batch,
             "plain_per_s": round(alone), "orbit_per_s": round(over), "ratio": round(over / alone, 3),
             "peak_mib_by_order": memory}  # fmt: skip
    write(options.out, device, found)


if __name__ == "__main__":
    main()
