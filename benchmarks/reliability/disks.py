"""Disks that are full or read-only, in memory: a clear error, and what was there before is as it was."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from commands import Command, Ended
from jobs import Job, difference, left_over, torn
from record import Drill

SHARES = (0.05, 0.3, 0.6, 0.9)  # of what a job needs


@contextmanager
def disk(place: Path, kilobytes: int) -> Iterator[Path]:
    """A file system in memory."""
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def full_disks(drill: Drill, jobs: dict[str, Job], results: dict[str, dict], folder: Path) -> None:
    """Every job on disks that are too small for it; then the disk grows, and it is called again."""
    for name, job in jobs.items():
        with disk(folder / name / "measured", 10**6) as place:
            Command(job.words(place / "out")).ended()
            needed = _kilobytes(place)
        wrong, said = [], ""
        for share in SHARES:
            with disk(folder / name / f"{share:.0%}", max(4, int(share * needed))) as place:
                ended = Command(job.words(place / "out")).ended()
                said = ended.last
                wrong += [] if _is_clear(ended, "full") else [f"{share:.0%}: exit code {ended.code}, {ended.last}"]
                wrong += torn(place)
                subprocess.run(["mount", "-o", f"remount,size={4 * needed}k", place], check=True)
                again = Command(job.words(place / "out")).ended()
                other = again.last if again.code else difference(job.result(place / "out"), results[name])
                wrong += [f"{share:.0%}: with more room it ends otherwise, {other}"] if other else left_over(place)
        drill.found(
            f"tokenstn {name} on a full disk: a clear error; with more room it goes on to the same result",
            f"disks of {', '.join(f'{share:.0%}' for share in SHARES)} of the {needed / 1000:.1f} MB that it needs: "
            f"{len(wrong)} ended otherwise{': ' + wrong[0] if wrong else f'; “{_without_folders(said, folder)}”'}",
            not wrong,
        )
    for verb, words in _replacing(jobs, folder / "sources").items():
        with disk(folder / verb, 10**6) as place:
            first = Command([*words, f"--out={place / 'out'}"]).ended()
            before, used = _hashes(place), _kilobytes(place)
            subprocess.run(["mount", "-o", f"remount,size={int(1.2 * used)}k", place], check=True)
            ended = Command([*words, f"--out={place / 'out'}", "--overwrite=true"]).ended()
            clear, intact = _is_clear(ended, "full"), _hashes(place) == before
        drill.found(
            f"tokenstn {verb} that should replace an earlier result on a full disk leaves that as it was",
            f"exit code {ended.code}, {len(before)} files {'unchanged' if intact else 'CHANGED'}",
            first.code == 0 and clear and intact,
        )


def read_only_disks(drill: Drill, jobs: dict[str, Job], folder: Path) -> None:
    """Every command with a folder that cannot be written, where there is a result of another."""
    wrong, seconds, said = [], [], ""
    commands = {name: job.words for name, job in jobs.items()}
    for verb, words in _replacing(jobs, folder / "sources").items():
        commands[verb] = lambda out, words=words: [*words, f"--out={out}"]
    for name, words in commands.items():
        with disk(folder / name, 1000) as place:
            (place / "earlier.txt").write_text("a result")
            subprocess.run(["mount", "-o", "remount,ro", place], check=True)
            ended = Command(words(place / "out")).ended()
            seconds.append(ended.seconds)
            said = ended.last
            if not _is_clear(ended, "read-only") or (place / "earlier.txt").read_text() != "a result":
                wrong.append(f"{name}: exit code {ended.code}, {ended.last}")
    drill.found(
        "a folder that cannot be written is refused before anything is computed",
        f"{', '.join(commands)}: after at most {max(seconds):.0f} s, {len(wrong)} ended otherwise"
        f"{': ' + wrong[0] if wrong else f'; “{_without_folders(said, folder)}”'}",
        not wrong,
    )


def _replacing(jobs: dict[str, Job], sources: Path) -> dict[str, list[str]]:
    """Commands that may replace an earlier result."""
    model = next(word for word in jobs["predict"].words(sources) if word.endswith("/model"))
    digits = next(word for word in jobs["train"].words(sources) if word.endswith(".npz"))
    few = ["--labels=false", "--limit=8", "--order=4", "--cost=false", "--controls=false", "--accelerator=cpu"]
    return {
        "evaluate": ["evaluate", model, f"--data={digits}", *few, "--progress=false"],
        "export": ["export", model, "--progress=false"],
    }


def _is_clear(ended: Ended, word: str) -> bool:
    return ended.code == 2 and ended.plain and word in ended.last


def _kilobytes(place: Path) -> int:
    used = subprocess.run(["df", "--output=used", "-k", place], check=True, capture_output=True, text=True)
    return int(used.stdout.split()[-1])


def _hashes(place: Path) -> dict[str, str]:
    files = (path for path in sorted(place.rglob("*")) if path.is_file())
    return {str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _without_folders(said: str, folder: Path) -> str:
    return said.replace(f"{folder}/", "…/")
