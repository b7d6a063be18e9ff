"""Mutants of every document that is read: each is used as it is, or refused with a sentence, and nothing in it is run.

    python benchmarks/reliability/configs.py                # 7,500 documents, a quarter of an hour on one core
    python benchmarks/reliability/configs.py --share 0.02   # to try it

Each kind of document has a process of its own, in which every attempt to connect to somewhere is refused and counted,
memory is measured, and a module ``evil`` lies on the path: importing it, or running any of the code that the documents
ask for, leaves a file behind.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import config_kinds as kinds
from record import Drill

PROOF = "executed"
EVIL = f"""
def function(*_, **__):
    open({PROOF!r}, 'w').close()

class Class:
    __init__ = function

function()
"""
MOST_MB = 300  # that a document may take before it is refused; the libraries' own need is not counted
SLOW = 60.0  # seconds that count as a hang; a localizer that is to read 1024 × 1024 pixels takes half of them
LONGEST = 2000  # letters of a sentence


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the documents; less to try it")
    parser.add_argument("--only", choices=("documents", "commands"), help="a part again, in the same file")
    parser.add_argument("--kind", choices=kinds.KINDS, help="used by the drill itself")
    parser.add_argument("--count", type=int, help="of the kind")
    given = parser.parse_args()
    if given.kind:
        print(json.dumps(try_all(kinds.KINDS[given.kind], given.count)))
        return
    counts = {name: max(3, round(kind.count * given.share)) for name, kind in kinds.KINDS.items()}
    with Drill("configs", "Configs and model folders", part=given.only is not None) as drill:
        if given.only != "commands":
            drill_documents(drill, counts)
        if given.only != "documents":
            drill_command_line(drill)


def drill_documents(drill: Drill, counts: dict[str, int]) -> None:
    """Every kind of document, so many of each."""
    executed: list[str] = []
    connections = 0
    for name, count in counts.items():
        with tempfile.TemporaryDirectory(prefix="configs-") as place:
            connections += drill_kind(drill, name, count, Path(place))
            executed += [name] * (Path(place) / PROOF).exists()
    figure = f"{sum(counts.values()):,} documents; code was run by {executed or 'none'}"
    drill.found("nothing in a document is run", figure, not executed)
    drill.found("no document makes a connection", f"{connections} attempts", connections == 0)


def drill_kind(drill: Drill, name: str, count: int, place: Path) -> int:
    """One kind in its process; the number of connections that were tried."""
    (place / "evil.py").write_text(EVIL)
    words = [sys.executable, str(Path(__file__).resolve()), f"--kind={name}", f"--count={count}"]
    paths = f"{Path(__file__).resolve().parent}{os.pathsep}{place}"
    found = subprocess.run(
        words, cwd=place, capture_output=True, text=True, errors="backslashreplace", timeout=7200,
        env={**os.environ, "PYTHONPATH": paths, "TOKENSTN_DRILL_ROOT": str(Path.cwd())},
    )  # fmt: skip
    promise = f"{name}: used as it is, or refused with a sentence"
    if found.returncode != 0:
        drill.found(promise, f"exit code {found.returncode}: {found.stderr[-1500:]}", False)
        return 0
    said = json.loads(found.stdout.splitlines()[-1])
    print("\n".join(said["wrong"][:3]))
    drill.found(
        promise,
        f"{said['used']:,} used, {said['refused']:,} refused, {len(said['wrong'])} otherwise; at most "
        f"{said['grown_mb']} MB more than for a good one; the slowest took {said['slowest_s']:.1f} s",
        not said["wrong"] and said["grown_mb"] <= MOST_MB and said["slowest_s"] < SLOW,
    )
    return said["connections"]


def try_all(kind: kinds.Kind, count: int) -> dict[str, Any]:
    """Every mutant of a kind: how many were used and refused, what happened otherwise, and what it took."""
    tries: list[Any] = []

    def refuse(_: socket.socket, address: Any) -> None:
        tries.append(address)
        raise ConnectionRefusedError("the drill lets nobody out")

    socket.socket.connect = refuse  # type: ignore[method-assign]
    mutants, attempt = kind.prepare(Path.cwd(), count)
    start_mb = _peak_mb()
    used = refused = 0
    slowest, wrong = 0.0, []
    for index, mutant in enumerate(mutants):
        start = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                attempt(mutant)
            used += 1
        except (ValueError, FileNotFoundError) as error:
            refused += 1
            if not str(error) or len(str(error)) > LONGEST:
                wrong.append(f"{index}: a sentence of {len(str(error))} letters: {str(error)[:100]}")
        except BaseException as error:  # what the drill is there to find
            wrong.append(f"{index}: {error!r:.300}")
        slowest = max(slowest, time.monotonic() - start)
    return {
        "used": used, "refused": refused, "wrong": wrong, "slowest_s": slowest,
        "grown_mb": _peak_mb() - start_mb, "connections": len(tries),
    }  # fmt: skip


def drill_command_line(drill: Drill) -> None:
    """Files of settings that want more than to set something."""
    tried, wrong = 0, []
    with tempfile.TemporaryDirectory(prefix="configs-") as place:
        (Path(place) / "evil.py").write_text(EVIL)
        for name, content in kinds.command_line_configs().items():
            path = Path(place) / "settings.yaml"
            path.write_bytes(content)
            for verb in ("predict", "train", "serve") if name.startswith("a ") else ("predict",):
                words = [sys.executable, "-m", "tokenstn.cli", verb, f"--config={path}"]
                found = subprocess.run(
                    words, cwd=place, capture_output=True, text=True, errors="backslashreplace", timeout=120,
                    env={**os.environ, "PYTHONPATH": place},
                )  # fmt: skip
                tried += 1
                if found.returncode != 2 or "Traceback" in found.stderr or (Path(place) / PROOF).exists():
                    wrong.append(f"{verb} with {name}: exit code {found.returncode}")
                    print(wrong[-1], found.stderr[-500:])
    drill.found(
        "--config on the command line: class_path, tags and bombs get exit code 2, and nothing is imported",
        f"{tried} calls, {len(wrong)} otherwise {wrong or ''}".strip(),
        not wrong,
    )


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
