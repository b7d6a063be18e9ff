"""Runs the blocks of one page in the current folder, one after the other, as a person would who follows the page.

Called by ``execute`` in a process of its own: cells as JSON on standard input, what they put out as JSON into the file
that is named as argument. Python blocks share one namespace. Output is caught below Python, so that what a library or a
child process prints is caught as well.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 120  # seconds until a server must have said that it is ready


def main(results: Path) -> None:
    page = json.load(sys.stdin)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    running: list[subprocess.Popen[bytes]] = []
    outputs: list[dict[str, Any]] = []
    warnings.showwarning = _show_warning
    sys.path.insert(0, "")  # modules that a page writes are found, as in a Python session
    try:
        for cell in page["cells"]:
            output, failed = _caught(lambda cell=cell: _run(cell, page["name"], namespace, running))
            outputs.append({"output": output, "failed": failed})
            if failed != cell["fails"]:
                break
    finally:
        for process in running:
            _end(process)
    results.write_text(json.dumps(outputs), encoding="utf-8")


def _run(cell: dict[str, Any], name: str, namespace: dict[str, Any], running: list[subprocess.Popen[bytes]]) -> bool:
    """Run a block; whether it failed."""
    if cell["language"] == "python":
        try:
            exec(compile(cell["code"], f"{name}, line {cell['line']}", "exec"), namespace)
        except Exception as error:
            # where in the page, and what; the frames of this file say nothing
            traceback.print_exception(type(error), error, _from_the_page(error), limit=-4)
            return True
        return False
    command = ["bash", "-eo", "pipefail", "-c", cell["code"]]
    if cell["until"] is None:
        return subprocess.run(command, stderr=subprocess.STDOUT, check=False).returncode != 0
    process = subprocess.Popen(command, stderr=subprocess.STDOUT, start_new_session=True)
    running.append(process)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if cell["until"] in _so_far():
            time.sleep(0.5)  # for the rest of what it says
            return False
        time.sleep(0.1)
    return True


def _caught(run: Callable[[], bool]) -> tuple[str, bool]:
    """What is put out while ``run`` is called, and what it returned."""
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        sys.stderr.flush()
        kept = os.dup(1), os.dup(2)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            failed = run()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])
        file.seek(0)
        return file.read().decode("utf-8", "replace"), failed


def _so_far() -> str:
    """What was put out since ``_caught`` began: standard output is that file."""
    size = os.fstat(1).st_size
    return os.pread(1, size, 0).decode("utf-8", "replace")


def _from_the_page(error: BaseException) -> Any:
    """The traceback from the page's own code on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server that the page started, with all of its own processes."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)
    except ProcessLookupError:
        pass
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
