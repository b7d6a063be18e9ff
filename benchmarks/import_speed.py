"""What ``import tokenstn`` and ``tokenstn --help`` take beside ``import torch``, each in a process of its own.

    python benchmarks/import_speed.py

``import tokenstn`` alone loads nothing; with ``TokenSTN`` it loads torch and timm, as every use of it does.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from timing import write

WAYS = {
    "import torch": "import torch",
    "import timm": "import timm",
    "import tokenstn": "import tokenstn",
    "import tokenstn, TokenSTN": "from tokenstn import TokenSTN",
    "tokenstn --help": "import sys; sys.argv = ['tokenstn', '--help']; from tokenstn.cli import main; main()",
}


def main() -> None:
    """Run each way in turns, print and write the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("results/speed/import.json"))
    options = parser.parse_args()
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(options.rounds + 1):
        for way, code in WAYS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
            took[way].append(time.perf_counter() - start)
    # the first round fills the cache of the disk
    seconds = {way: round(statistics.median(times[1:]), 3) for way, times in took.items()}
    for way, each in seconds.items():
        print(f"{way:28} {each:6.3f} s")
    write(options.out, "cpu", {"command": "python benchmarks/import_speed.py", "seconds": seconds})


if __name__ == "__main__":
    main()
