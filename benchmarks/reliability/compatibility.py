"""Does everything still load and answer that a release wrote, and do the lowest supported versions run the tests?

python -m venv /tmp/lowest && /tmp/lowest/bin/pip install -r constraints-lowest.txt pytest hypothesis
python benchmarks/reliability/compatibility.py --lowest /tmp/lowest/bin/python
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from record import Drill
from safetensors.torch import load_file

sys.path.append(str(Path(__file__).parents[2]))
from tests.trust import public_api
from tests.trust.test_releases import PACKED, TOLERANCE, unpacked
from tests.trust.write_release import answers

import tokenstn

ROOMS = ("geometry", "posteriors", "models", "data", "evaluation")
# of libraries that are older than their own dependencies
OLD = ("-W", "ignore::FutureWarning", "-W", "ignore::DeprecationWarning")
VERSIONS = (
    "import torch, numpy, timm; print(f'torch {torch.__version__}, numpy {numpy.__version__}, timm {timm.__version__}')"
)


def releases(drill: Drill) -> None:
    apart, compared = 0.0, 0
    for archive in PACKED:
        expected = load_file(archive.with_suffix(".safetensors"))
        images = expected.pop("images")
        calls = [name.split()[0] for name in expected if name.endswith(" probabilities")]
        with tempfile.TemporaryDirectory() as folder:
            model = tokenstn.load(unpacked(archive, Path(folder)))
            found = answers(model, images, tuple(int(call) if call.isdigit() else call for call in calls))
        for name, value in expected.items():
            apart = max(apart, (found[name].double() - value.double()).abs().max().item())
            compared += value.numel()
    versions = sorted({archive.parent.name for archive in PACKED})
    drill.found(
        "what a release wrote loads and answers as it did",
        f"{len(PACKED)} models of release {', '.join(versions)} (folders and an exported file): {compared:,} numbers "
        f"of their answers, at most {apart:.1e} apart",
        apart <= TOLERANCE,
    )


def interface(drill: Drill) -> None:
    promised = public_api.FROZEN.read_text(encoding="utf-8").splitlines()
    found = public_api.describe().splitlines()
    changed = len(set(promised) ^ set(found))
    drill.found(
        "names, arguments, fields and options are those that were promised",
        f"{len(promised):,} lines, {changed} changed",
        promised == found,
    )


def both_ends(drill: Drill, lowest: str) -> None:
    tests = [f"tests/{room}" for room in ROOMS]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "src", "PYTHONDONTWRITEBYTECODE": "1"}
    for what, python in (("lowest", lowest), ("newest", sys.executable)):
        options = OLD if what == "lowest" else ()
        command = [python, "-m", "pytest", "-p", "no:cacheprovider", "--durations=0", "-q", "-rN", *options, *tests]
        done = subprocess.run(
            [*command, "-o", "addopts=--import-mode=importlib"], env=environment, capture_output=True, text=True
        )
        last = done.stdout.strip().splitlines()[-1]  # what a test that failed has printed may look like it
        told = re.findall(r"\d+ (?:passed|failed|errors?|skipped|deselected)", last)
        versions = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True).stdout.strip()
        drill.found(
            f"the {what} versions run the tests of {', '.join(ROOMS)}", f"{', '.join(told)} ({versions})",
            done.returncode == 0,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--lowest", help="the Python of an environment with constraints-lowest.txt; without it, not tried"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    with Drill("compatibility", "Compatibility") as drill:
        releases(drill)
        interface(drill)
        if given.lowest:
            both_ends(drill, given.lowest)


if __name__ == "__main__":
    main()
