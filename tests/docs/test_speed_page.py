"""The page on speed says what was measured, and nothing else."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_its_script_renders():
    done = subprocess.run(
        [sys.executable, "benchmarks/speed_page.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
