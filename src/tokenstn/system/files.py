"""Files that are there as a whole or not at all, whenever the power goes or the disk is full."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".unfinished"  # in the names of files and folders that are being written
TOGETHER = f".together{UNFINISHED}"
KEPT = 40  # letters of a name that the name of its unfinished file begins with
# what a person can do about an error of the operating system
REMEDIES = {
    errno.ENOSPC: "the disk is full: make room and call it again",
    errno.EDQUOT: "your share of the disk is used up: make room and call it again",
    errno.EFBIG: "files may not become so large here: lift the limit and call it again",
    errno.EROFS: "it lies on a disk that is read-only: choose another place",
    errno.EACCES: "you may not write there: choose another place",
    errno.EPERM: "you may not write there: choose another place",
    errno.EIO: "the disk failed: choose another place",
}


class NotWrittenError(OSError):
    """A file that could not be written; the message says why and what to do. What was there before is as it was."""


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A place beside ``path`` to write to, which is then moved there; the disk has it when this returns."""
    # the suffix stays, because writers choose the format by it; a name may have no more than 255 bytes
    beside = path.with_name(f".{path.stem[:KEPT]}{UNFINISHED}-{os.getpid()}-{threading.get_ident()}{path.suffix}")
    with in_words(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield beside
            _reach_the_disk(beside)
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
        _keep_names(path.parent)


def write_text(path: Path, text: str) -> Path:
    """A text file, written whole; bytes in file names that are no text become escapes, as in Parquet."""
    return write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_bytes(path: Path, content: bytes) -> Path:
    """A file, written whole."""
    with written_whole(path) as beside:
        beside.write_bytes(content)
    return path


@contextmanager
def written_together(folder: Path, last: str, instead_of: Iterable[Path] = ()) -> Iterator[Path]:
    """A place to write several files to, which then all move into ``folder``, where ``last`` says that all are there.

    What ``folder`` held stays as it is while they are written. Then ``last`` goes, and the files ``instead_of``; the
    others come, and ``last`` at the end.
    """
    with in_words(folder):
        folder.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f"{TOGETHER}-", dir=folder))
        moving = False
        try:
            yield beside
            files = sorted((path for path in beside.rglob("*") if path.is_file()), key=lambda path: path.name == last)
            for path in files:
                _reach_the_disk(path)
            moving = True
            for old in (folder / last, *instead_of):
                old.unlink(missing_ok=True)
            for path in files:
                place = folder / path.relative_to(beside)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, place)
                _keep_names(place.parent)
            moving = False
        finally:
            if not moving:  # else it is the sign that what has been moved so far belongs to no other
                shutil.rmtree(beside, ignore_errors=True)


def was_cut_off(folder: Path) -> bool:
    """Whether a process ended while it wrote files together into a folder: what stands there is its own."""
    return any(folder.glob(f"{TOGETHER}-*"))


def remove_unfinished(folder: Path, deep: bool = True) -> None:
    """What a process that was killed had not finished in a folder, or with ``deep`` at any depth."""
    pattern = f".*{UNFINISHED}-*"
    for left in list(folder.rglob(pattern) if deep else folder.glob(pattern)):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def require_writable(folder: Path) -> None:
    """Refuse a folder that nothing can be written to, before hours are spent on what should go there."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise FileExistsError(f"{there} is a file, and results go into a folder: choose another place")
    with in_words(folder), tempfile.TemporaryFile(dir=there) as file:
        file.write(b"x")
        file.flush()


@contextmanager
def in_words(path: Path) -> Iterator[None]:
    """Errors of the operating system, while ``path`` is written, as a sentence that says what to do."""
    try:
        yield
    except NotWrittenError:
        raise
    except OSError as error:
        number = error.errno
        if number not in REMEDIES:
            raise
        found = NotWrittenError(f"{path} could not be written, because {REMEDIES[number]} ({os.strerror(number)})")
        found.errno = number
        raise found from error


def _reach_the_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _keep_names(folder: Path) -> None:
    """A renamed file survives a power cut only when its folder has reached the disk, too."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
