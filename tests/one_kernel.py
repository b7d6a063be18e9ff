"""For tests of kernels: where they run, and Triton's interpreter, which needs no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed here")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to run it on")


def in_the_interpreter(module: str, code: str) -> None:
    """Run a statement with the names of a test module where Triton interprets its kernels."""
    before = f"import os, sys; sys.path.insert(0, os.getcwd())\nfrom {module} import *\n"
    done = subprocess.run(
        [sys.executable, "-c", before + code], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
