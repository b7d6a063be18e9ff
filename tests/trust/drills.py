"""The drills of ``benchmarks/reliability``, which are in no package, for tests that do the same a few times."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "benchmarks" / "reliability"


def drill(name: str) -> ModuleType:
    """One of their modules; they find each other by name."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))  # last, so that no name of theirs stands in the way of a library's
    return importlib.import_module(name)
