"""Every verb once, on names that strangers could have chosen: what ``strangers.py`` watches.

    python benchmarks/reliability/tour.py FOLDER     # leaves everything in FOLDER, and says what was done

Under strace (see ``strangers.py``) whatever leaves this machine is seen.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2]))
from server_load import free_port
from tests.trust import pages

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def prepare(folder: Path) -> None:
    """photos/ with classes and files of such names, and model/NAME with such classes."""
    pages.write_images(folder / "photos", copies=6)
    pages.nasty_model(sorted(pages.FILE_NAMES)).save_pretrained(model_in(folder))


def model_in(folder: Path) -> Path:
    return folder / "model" / pages.FILE_NAMES[1]


def verbs(folder: Path) -> Iterator[str]:
    """Everything that ends by itself; the name of each when it has."""
    photos, model, run = str(folder / "photos"), str(model_in(folder)), str(folder / "run")
    quiet = "--progress=false"
    yield _imported()
    for words in (
        ("diagnose", model, photos, "--out", str(folder / "diagnosis"), "--order=4", quiet),
        ("train", photos, "--classifier", model, "--epochs=1", "--out", run, quiet),
        ("evaluate", run, "--data", photos, "--split=all", "--order=4", "--out", str(folder / "one"), quiet),
        ("evaluate", model, "--data", photos, "--split=all", "--order=4", "--out", str(folder / "two"), quiet),
        ("compare", str(folder / "one"), str(folder / "two"), "--out", str(folder / "compared")),
        ("predict", run, photos, "--out", str(folder / "predictions"), quiet),
        ("rectify", run, photos, "--out", str(folder / "upright"), "--sheet", quiet),
        ("export", run, "--out", str(folder / "bundle"), quiet),
    ):
        done = subprocess.run([sys.executable, "-m", "tokenstn.cli", *words], env=ENVIRONMENT, capture_output=True)
        if done.returncode:
            raise RuntimeError(f"tokenstn {words[0]}: {done.stdout.decode()}\n{done.stderr.decode()}")
        yield words[0]


@contextmanager
def app(*words: str, before: tuple[str, ...] = ()) -> Iterator[tuple[str, subprocess.Popen]]:
    """``tokenstn serve`` or ``demo`` until the block ends: its address and process. before: what it is run under."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [*before, sys.executable, "-m", "tokenstn.cli", *words, f"--port={port}"]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(f"{address}/health" if words[0] == "serve" else address, process)
            yield address, process
        finally:
            process.terminate()
            process.wait(60)


def visit(folder: Path) -> Iterator[str]:
    """Ask the server for an answer, and the demo page for itself."""
    photo = next((folder / "photos").glob("*/*.png")).read_bytes()
    with app("serve", str(folder / "run")) as (address, _):
        asked = urllib.request.Request(f"{address}/predict", photo, {"Content-Type": "image/png"})
        for path in (asked, f"{address}/docs", f"{address}/metrics", f"{address}/openapi.json"):
            urllib.request.urlopen(path, timeout=60).read()
    yield "serve"
    with app("demo", str(model_in(folder)), f"--images={folder / 'photos'}") as (address, _):
        for path in ("/", "/config", "/theme.css", "/gradio_api/info"):
            urllib.request.urlopen(f"{address}{path}", timeout=60).read()
        time.sleep(3)  # whoever reports on a start does so after it
    yield "demo"


def _imported() -> str:
    """Every module of the package, in a fresh process."""
    import tokenstn

    names = [one.name for one in pkgutil.walk_packages(tokenstn.__path__, "tokenstn.")]
    known = [name for name in names if "bundle_files" not in name]
    subprocess.run([sys.executable, "-c", f"import {', '.join(known)}"], env=ENVIRONMENT, check=True)
    return f"import of {len(known)} modules"


def _wait(address: str, process: subprocess.Popen) -> None:
    until = time.monotonic() + 240
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"{address} did not answer")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    prepare(place)
    for what in (*verbs(place), *visit(place)):
        print(what, flush=True)
