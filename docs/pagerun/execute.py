"""Run a page in an empty folder, and keep what came of it until its code or the package changes.

python docs/pagerun/execute.py docs/tutorials/robust.md      # run one page and print what its blocks put out
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from pagerun.cells import Cell, cells_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KEPT = ROOT / "build" / "pages"
LIMIT = 900  # seconds for a page
WIDTH = 100  # columns that a block of output has on a desktop
MEASURED = ("results", "speed", "reliability", "comparison")  # pages whose commands were run on other machines
LINK = re.compile(r"\]\(([^)\s#:]+)\)")


class PageFailedError(Exception):
    """A block of a page did not do what the page says."""


@dataclass(frozen=True)
class Ran:
    """outputs: of each block that was run, in order. files: what the page shows or links to of what it made."""

    outputs: list[str]
    files: dict[str, bytes]


def pages_to_run() -> list[str]:
    """Every page with code to run, as a path inside ``docs``."""
    names = (path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md")))
    return [name for name in names if not name.startswith(MEASURED) and _runs((DOCS / name).read_text("utf-8"))]


def ran_page(name: str) -> Ran:
    """What a page (a path inside ``docs``) put out; run now unless that is known already.

    Two processes that want the same page do not run it twice: the second waits.
    """
    markdown = (DOCS / name).read_text(encoding="utf-8")
    key = hashlib.sha256(f"{_package()}{_asked(markdown)}".encode()).hexdigest()
    path = KEPT / Path(name).with_suffix(".json")
    with _locked(path.with_suffix(".lock")):
        if path.is_file():
            known = json.loads(path.read_text(encoding="utf-8"))
            if known["key"] == key:
                files = {file: base64.b64decode(content) for file, content in known["files"].items()}
                return Ran(known["outputs"], files)
        found = run_markdown(markdown, f"docs/{name}")
        files = {file: base64.b64encode(content).decode() for file, content in found.files.items()}
        whole = path.with_suffix(".part")
        whole.write_text(json.dumps({"key": key, "outputs": found.outputs, "files": files}), encoding="utf-8")
        os.replace(whole, path)
    return found


def run_markdown(markdown: str, name: str) -> Ran:
    """Run the blocks of a page in an empty folder of its own; ``name`` is for messages."""
    cells = [cell for cell in cells_of(markdown) if cell.run]
    with tempfile.TemporaryDirectory() as place:
        folder, results = Path(place) / "work", Path(place) / "results.json"
        folder.mkdir()
        asked = {"name": name, "cells": [asdict(cell) for cell in cells]}
        try:
            done = subprocess.run(
                [sys.executable, Path(__file__).with_name("worker.py"), results],
                cwd=folder, env=_environment(), input=json.dumps(asked), text=True, timeout=LIMIT, check=False,
                capture_output=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise PageFailedError(f"{name} took more than {LIMIT} seconds") from error
        if done.returncode != 0:
            raise PageFailedError(f"{name} stopped the process that ran it:\n{done.stdout}{done.stderr}")
        said = json.loads(results.read_text(encoding="utf-8"))
        _require_all(cells, said, name)
        wanted = dict.fromkeys(LINK.findall(markdown))
        files = {file: (folder / file).read_bytes() for file in wanted if (folder / file).is_file()}
    return Ran([each["output"] for each in said], files)


def _require_all(cells: list[Cell], said: list[dict], name: str) -> None:
    last = cells[len(said) - 1] if said else None
    if last is not None and said[-1]["failed"] != last.fails:
        what = "failed" if said[-1]["failed"] else "should have failed and did not"
        raise PageFailedError(f"{name}, line {last.line}: this block {what}\n{last.code}\n{said[-1]['output']}")


def _runs(markdown: str) -> bool:
    return any(cell.run for cell in cells_of(markdown))


def _asked(markdown: str) -> str:
    """What the run of a page depends on besides the package: its blocks and the files that it shows, not its words."""
    cells = [(cell.language, cell.code, cell.fails, cell.until) for cell in cells_of(markdown) if cell.run]
    return json.dumps([cells, LINK.findall(markdown)])


def _environment() -> dict[str, str]:
    """As in a terminal with this Python's commands on the path; plain text, one thread for each process."""
    programs = str(Path(sys.executable).parent)
    given = {
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
        "COLUMNS": str(WIDTH), "TERM": "dumb", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), "PYTHONIOENCODING": "utf-8",
    }  # fmt: skip
    return {**os.environ, **given}


@cache
def _package() -> str:
    """A digest of what pages depend on: the package, the versions of others, and what runs the blocks."""
    digest = hashlib.sha256(f"{sys.version} {WIDTH}".encode())
    sources = [*(ROOT / "src" / "tokenstn").rglob("*"), Path(__file__).with_name("worker.py"), ROOT / "constraints.txt"]
    for path in sorted(path for path in sources if path.is_file() and "__pycache__" not in path.parts):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(path: str) -> int:
    markdown = Path(path).read_text(encoding="utf-8")
    try:
        found = run_markdown(markdown, path)
    except PageFailedError as error:
        print(error, file=sys.stderr)
        return 1
    for cell, output in zip((cell for cell in cells_of(markdown) if cell.run), found.outputs, strict=True):
        print(f"──── line {cell.line}\n{cell.code}\n{output}")
    print("files:", ", ".join(found.files) or "none")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
