"""Millions of paths without an object for each: one run of bytes, and where each path ends."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import overload


class PathList(Sequence[Path]):
    """A sequence of paths in as many bytes as their text has, and eight more for each.

    A list of objects would be copied into every process that reads images, page by page, as their reference counts
    change; these bytes are shared.

    >>> paths = PathList(["a/b.jpg", "c.png"])
    >>> len(paths), paths[-1]
    (2, PosixPath('c.png'))
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        text, ends = bytearray(), array("q", [0])
        for path in paths:
            text += os.fsencode(path)
            ends.append(len(text))
        self._text, self._ends = bytes(text), ends

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> list[Path]: ...
    def __getitem__(self, index: int | slice) -> Path | list[Path]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"path {index} of {len(self)}")
        return Path(os.fsdecode(self._text[self._ends[place] : self._ends[place + 1]]))
