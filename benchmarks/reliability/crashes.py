"""Drill: commands that are killed, told to stop, run out of disk, or lose a process.

python benchmarks/reliability/crashes.py              # half an hour on two cores; mounts small disks, so as root
python benchmarks/reliability/crashes.py --only kills --jobs train      # a part again, in the same file
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import tempfile
from pathlib import Path

from commands import Command
from deaths import lost_processes, signals
from disks import full_disks, read_only_disks
from jobs import Job, difference, jobs, left_over, torn
from record import Drill

PARTS = ("kills", "signals", "processes", "disks")
JOBS = ("train", "predict", "rectify", "bench")


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="for each command, at least")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--jobs", nargs="*", default=JOBS, choices=JOBS, help="that are killed")
    options = parser.parse_args()
    part = [*options.only] != [*PARTS] or [*options.jobs] != [*JOBS]
    # a shell makes what it starts in the background deaf to Ctrl-C, and so would be what is started from here
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="crashes-"))
    try:
        with Drill("crashes", "Crashes", part=part) as drill:
            every = jobs(folder)
            whole = {name: _uninterrupted(job, folder / f"{name}-whole") for name, job in every.items()}
            for name, job in every.items():
                if "kills" in options.only and name in options.jobs:
                    _kills(drill, job, folder / name, *whole[name], options.kills, random.Random(options.seed))
            results = {name: result for name, (result, _) in whole.items()}
            if "signals" in options.only:
                signals(drill, every, results, folder / "signals")
            if "processes" in options.only:
                lost_processes(drill, every, folder / "processes")
            if "disks" in options.only:
                full_disks(drill, every, results, folder / "full")
                read_only_disks(drill, every, folder / "read-only")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _uninterrupted(job: Job, out: Path) -> tuple[dict, float]:
    """The result of a job that nobody disturbs, and the seconds that it takes."""
    ended = Command(job.words(out)).ended()
    if ended.code != 0:
        raise SystemExit(f"{job.verb} does not run at all: {ended.said}")
    print(f"{job.verb}: {ended.seconds:.0f} s undisturbed", flush=True)
    return job.result(out), ended.seconds


def _kills(drill: Drill, job: Job, folder: Path, result: dict, seconds: float, least: int, draw: random.Random) -> None:
    """Kill a job at moments drawn over its duration, go on, and kill again, until it is done; as often as asked for."""
    kills, in_work, runs, others, broken = 0, 0, 0, [], []
    while kills < least:
        out, runs = folder / str(runs), runs + 1
        while True:
            command = Command(job.words(out))
            ended = command.wait(draw.uniform(0, seconds))
            if ended is not None:
                break
            command.kill(everyone=draw.random() < 0.5)
            kills += 1
            in_work += out.exists()
            broken += torn(out) if out.exists() else []
        if ended.code != 0:
            others.append(f"exit code {ended.code}: {ended.last}")
        elif other := difference(job.result(out), result):
            others.append(f"run {runs}: {other}")
        elif left_over(out):
            others.append(f"run {runs} leaves {left_over(out)[0]}")
        shutil.rmtree(out)
    wrong = [*others, *broken]
    print("\n".join(wrong), flush=True)
    drill.found(
        f"tokenstn {job.verb}, killed with SIGKILL at any moment and called again, ends with the same result",
        f"{kills} kills, {in_work} of them after it had begun to write, in {runs} runs: {len(others)} runs ended "
        f"otherwise, {len(broken)} files were torn{'; ' + wrong[0] if wrong else ''}",
        not wrong,
    )


if __name__ == "__main__":
    main()
