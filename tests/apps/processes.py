"""Commands as processes of their own, which may not leave this machine, and the load test from ``benchmarks/``."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

LOAD_TEST = Path(__file__).parents[2] / "benchmarks" / "server_load.py"
WITNESS = Path(__file__).parents[1] / "trust" / "witness"


def load_test():
    """The module ``benchmarks/server_load.py``, which is in no package."""
    if "server_load" not in sys.modules:
        spec = importlib.util.spec_from_file_location("server_load", LOAD_TEST)
        module = sys.modules["server_load"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["server_load"]


@contextmanager
def watched(**settings: str):
    """An environment in which nobody leaves this machine; afterwards: nobody tried."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "tried")
        paths = os.pathsep.join([str(WITNESS), *filter(None, [os.environ.get("PYTHONPATH")])])
        common = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONPATH": paths, "WITNESS": str(log)}
        yield {**os.environ, **common, **settings}
        assert not log.exists(), log.read_text()


@contextmanager
def command(*words: str, url: str, environment: dict[str, str] | None = None, wait: float = 120):
    """``tokenstn …`` until the block ends; begins when its page answers."""
    with watched(**(environment or {})) as surroundings:
        process = subprocess.Popen(
            [sys.executable, "-m", "tokenstn.cli", *words],
            env=surroundings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            until = time.monotonic() + wait
            while True:
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < until, "it did not answer"
                try:
                    with urllib.request.urlopen(url, timeout=5) as answer:
                        if answer.status == 200:
                            break
                except OSError:  # not there yet
                    time.sleep(0.2)
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(60)
            process.stdout.close()
