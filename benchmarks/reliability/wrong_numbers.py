"""Drill: numbers that go wrong in training, images that show nothing, other ways to compute, and the same seed twice.

python benchmarks/reliability/wrong_numbers.py     # a quarter of an hour on two cores; for CUDA see parity.py
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

import torch
from nothing_to_see import blank_images, broken_answers, broken_pixels
from parity import parity
from record import Drill
from same_seed import same_seed
from wrong_steps import explosions, wrong_steps


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10, help="that go wrong, of each kind and with each policy")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=["steps", "images", "parity", "seed"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="numbers-") as temporary, Drill("numbers", "Numbers") as drill:
        folder = Path(temporary)
        if "steps" in options.only:
            wrong_steps(drill, folder / "steps", options.steps, random.Random(options.seed))
            explosions(drill, folder / "explosions")
        if "images" in options.only:
            blank_images(drill, folder / "blank")
            broken_pixels(drill)
            broken_answers(drill, folder / "answers")
        if "parity" in options.only:
            parity(drill, "cpu")
        if "seed" in options.only:
            same_seed(drill, folder / "seed")


if __name__ == "__main__":
    main()
