"""A disk of a few hundred kilobytes, for tests of what happens when it is full, and one that is read-only."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[Path]:
    """A file system in memory at ``place``; the test is skipped where mounting is not allowed."""
    place.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", place], capture_output=True)
    if made.returncode:
        pytest.skip("mounting a small disk needs the rights of root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def make_read_only(place: Path) -> None:
    """From here on nothing can be written there."""
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
