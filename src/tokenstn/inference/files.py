"""Files that are there as a whole or not at all, whenever the power goes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".unfinished"  # in the names of files that are being written


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A place beside ``path`` to write to, which is then moved there; the disk has it when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # the suffix stays, because writers choose the format by it
    beside = path.with_name(f".{path.stem}{UNFINISHED}-{os.getpid()}-{threading.get_ident()}{path.suffix}")
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    _keep_names(path.parent)


def write_text(path: Path, text: str) -> Path:
    """A text file, written whole; bytes in file names that are no text become question marks."""
    with written_whole(path) as beside:
        beside.write_bytes(text.encode("utf-8", errors="replace"))
    return path


def remove_unfinished(folder: Path) -> None:
    """What a process that was killed had not finished, at any depth."""
    for left in folder.rglob(f".*{UNFINISHED}-*"):
        left.unlink(missing_ok=True)


def _keep_names(folder: Path) -> None:
    """A renamed file survives a power cut only when its folder has reached the disk, too."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
