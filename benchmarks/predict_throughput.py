"""Images per second of ``tokenstn predict`` beside the bare classifier's loop over the same files, in one run.

    python benchmarks/predict_throughput.py --images 256 --network vit_tiny_patch16_224

The loop reads, prepares and classifies with the same readers and batches, and keeps the answers in memory; predict also
finds poses, looks at rectified views, and writes Parquet. Each is run ``--repeats`` times in turn; the medians count.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import timm
import torch
from lightning.fabric import Fabric
from PIL import Image
from torch.utils.data import DataLoader

import tokenstn
from tokenstn.data import ImageDataset, collate, to_float
from tokenstn.inference.predict import predict_images, prediction_job
from tokenstn.inference.sources import ImageList, list_images


def make_images(folder: Path, count: int) -> None:
    """JPEG photos of 480×360 pixels, blurred noise."""
    generator = np.random.default_rng(0)
    for number in range(count):
        small = generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        Image.fromarray(small).resize((480, 360)).save(folder / f"{number:05d}.jpg", quality=90)


@torch.inference_mode()
def bare_loop(model: tokenstn.TokenSTN, images: ImageList, fabric: Fabric, batch_size: int, workers: int) -> None:
    """What one would write by hand around the classifier."""
    prepared = model.preprocessing
    assert prepared is not None
    dataset = ImageDataset(images.table, size=prepared.size, crop_share=prepared.crop_share)
    answers = []
    for batch in DataLoader(dataset, batch_size, num_workers=workers, collate_fn=collate):
        pixels = to_float(batch["image"].to(fabric.device), prepared.mean, prepared.std)
        answers.append(model.classifier(pixels).softmax(-1).max(-1).values.cpu())


def main(images: int, network: str, batch_size: int, workers: int, repeats: int, accelerator: str) -> None:
    torch.manual_seed(0)
    model = tokenstn.TokenSTN(timm.create_model(network, num_classes=100)).eval()
    fabric = Fabric(accelerator=accelerator, devices=1)
    fabric.launch()
    model.to(fabric.device)
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "images"
        folder.mkdir()
        make_images(folder, images)
        listed = list_images(folder)
        for repeat in range(repeats + 1):
            for name, views in {"bare loop": None, "predict, 1 view": 1, "predict, 4 views": 4}.items():
                job = prediction_job(Path(temporary) / f"{name}{repeat}", model, listed, 4096, {})
                job.begin()
                start = time.perf_counter()
                if views is None:
                    bare_loop(model, listed, fabric, batch_size, workers)
                else:
                    predict_images(
                        model, listed, job, job.missing(), fabric, views=views, batch_size=batch_size, workers=workers
                    )
                if repeat:  # the first round warms up
                    seconds.setdefault(name, []).append(time.perf_counter() - start)
    where = f"{workers} readers, {torch.get_num_threads()} threads, {fabric.device}"
    print(f"{network}, {images} JPEG files of 480×360, batch {batch_size}, {where}")
    alone = statistics.median(seconds["bare loop"])
    for name, taken in seconds.items():
        median = statistics.median(taken)
        print(f"{name:18}{images / median:8.1f} images/s   {median / alone:5.2f} times the bare loop's time")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--network", default="vit_tiny_patch16_224")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--accelerator", default="cpu")
    main(**vars(parser.parse_args()))
