"""``tokenstn predict`` on many images: is the memory flat, and does every image survive being killed?

    python benchmarks/predict_scale.py --images 100000 --kills 3

Makes small PNG files in a temporary folder, runs the command on them with a tiny model on the CPU, kills it with
SIGKILL at random moments, starts it again, and counts rows. Prints the memory of the process and of its readers over
time. Everything it made is removed.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import timm
import torch
from PIL import Image

import tokenstn

SIDE = 32
SHARD = 1024


def make_images(folder: Path, count: int) -> None:
    """PNG files of one digit-like blob each, a thousand in a folder."""
    generator = np.random.default_rng(0)
    for number in range(count):
        place = folder / f"{number // 1000:04d}" / f"{number:07d}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (SIDE, SIDE), dtype=np.uint8)).save(place, compress_level=1)


def make_model(folder: Path) -> None:
    """An untrained ViT of 0.05 M parameters with a rectifier for rotation and scale."""
    torch.manual_seed(0)
    network = timm.create_model(
        "vit_tiny_patch16_224",
        img_size=SIDE,
        patch_size=8,
        embed_dim=48,
        depth=2,
        num_heads=3,
        num_classes=10,
        in_chans=1,
    )
    prepared = tokenstn.Preprocessing((SIDE, SIDE), (0.5,), (0.25,))
    tokenstn.TokenSTN(network, shared=1, preprocessing=prepared).save_pretrained(folder)


def resident(process: int) -> tuple[float, float]:
    """MB of the process, and of it with its readers, each page that they share counted once (Linux)."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return _size(process, "Rss"), sum(_size(member, "Pss") for member in (process, *children))


def _size(process: int | str, kind: str) -> float:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{kind}:"))


def run(command: list[str], out: Path, kill_at: float | None) -> tuple[int, list[tuple[float, float, float]]]:
    """The exit code, −9 when killed, and the memory every two seconds: (seconds, MB, MB of all).

    Args:
        kill_at: it is killed when so many files are there, and at a random moment while it makes the next.
    """
    start, measured = time.monotonic(), []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as job:
        while job.poll() is None:
            time.sleep(0.02)
            now = time.monotonic() - start
            if kill_at is not None and files(out) >= int(kill_at):
                time.sleep(kill_at % 1)
                job.send_signal(signal.SIGKILL)
                break
            if not measured or now - measured[-1][0] >= 2:
                try:
                    measured.append((now, *resident(job.pid)))
                except (OSError, StopIteration):  # it has just ended
                    break
    return job.returncode, measured


def files(out: Path) -> int:
    """How many shards are on disk."""
    return len(list(out.glob("predictions/part-*.parquet")))


def main(images: int, kills: int, seed: int) -> None:
    luck = random.Random(seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_images(folder / "images", images)
        make_model(folder / "model")
        out = folder / "out"
        command = [
            sys.executable, "-m", "tokenstn.cli", "predict", str(folder / "model"), str(folder / "images"),
            "--out", str(out), "--accelerator=cpu", "--views=1", "--progress=false", "--batch_size=128", "--workers=1",
            f"--shard_size={SHARD}",
        ]  # fmt: skip
        shards = -(-images // SHARD)
        moments = sorted(luck.uniform(1, shards - 1) for _ in range(kills))
        killed = 0
        for attempt, moment in enumerate([*moments, None], start=1):
            before, start = files(out), time.monotonic()
            code, measured = run(command, out, moment)
            killed += code == -signal.SIGKILL
            seconds = time.monotonic() - start
            print(f"run {attempt}: exit code {code} after {seconds:.0f} s, files {before} → {files(out)} of {shards}")
            every = max(1, len(measured) // 8)
            for now, alone, together in measured[::every]:
                print(f"    {now:5.0f} s   {alone:6.0f} MB   with readers {together:6.0f} MB")
        names = ds.dataset(out / "predictions").to_table(columns=["path"])["path"].to_pylist()
        rejected = len((out / "rejected.csv").read_text().splitlines()) - 1
        print(f"{len(names):,} rows, {len(set(names)):,} different images, {rejected} rejected")
        if len(names) != images or len(set(names)) != images or killed != kills:
            raise SystemExit(f"expected {images:,} rows and {kills} kills, got {killed} kills")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
