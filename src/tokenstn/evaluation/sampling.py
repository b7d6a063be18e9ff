"""Which images an evaluation looks at, and a checksum that says later whether they were the same ones."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor

from tokenstn.data import ImageTable, UnreadableImageError, ZipMember
from tokenstn.evaluation.answers import label_set_id


def stratified_limit(table: ImageTable, split: str | None = "test", limit: int | None = None, seed: int = 0) -> Tensor:
    """At most ``limit`` rows of a split (of the table when None), the classes in their proportions: ``(n,)``, sorted.

    A larger limit keeps the images of a smaller one. Without labels the images are drawn evenly.

    >>> from tokenstn.data import read_digits
    >>> len(stratified_limit(read_digits(), None, 100))
    100
    """
    rows = torch.arange(len(table)) if split is None else table.split(split)
    if limit is None or limit >= len(rows):
        return rows.sort().values
    if limit < 1:
        raise ValueError(f"limit={limit}: at least one image, or None for all {len(rows)}")
    labels = table.labels[rows]
    strata = label_set_id(labels > 0) if table.multi_label else labels
    generator = torch.Generator().manual_seed(seed)
    order = torch.empty(len(rows), dtype=torch.float64)
    for stratum in strata.unique().tolist():
        members = (strata == stratum).nonzero().flatten()
        members = members[torch.randperm(len(members), generator=generator)]
        # spread over [0, 1): any first part of all classes together has each in its proportion
        start = torch.rand(1, generator=generator).item()
        order[members] = (torch.arange(len(members), dtype=torch.float64) + start) / len(members)
    return rows[order.argsort(stable=True)[:limit]].sort().values


def data_checksum(table: ImageTable, rows: Tensor) -> str:
    """SHA-256 over what was evaluated: the bytes of each file (the pixels of images in memory), its box and its label.

    The paths do not count: the same images elsewhere have the same checksum.

    >>> from tokenstn.data import read_digits
    >>> len(data_checksum(read_digits(), torch.arange(5)))
    64
    """
    digest = hashlib.sha256()
    for row, content in zip(rows.tolist(), _contents(table, rows.tolist()), strict=True):
        box = [] if table.boxes is None else table.boxes[row].tolist()
        digest.update(f"{len(content)} {table.labels[row].tolist()} {box}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _contents(table: ImageTable, rows: list[int]) -> Iterator[bytes]:
    archives: dict[Path, zipfile.ZipFile] = {}
    with ExitStack() as stack:
        for row in rows:
            item = table.items[row]
            try:
                if isinstance(item, Path):
                    yield item.read_bytes()
                elif isinstance(item, ZipMember):
                    if item.archive not in archives:
                        archives[item.archive] = stack.enter_context(zipfile.ZipFile(item.archive))
                    yield archives[item.archive].read(item.name)
                else:
                    pixels = table.read(row)
                    yield repr(tuple(pixels.shape)).encode() + pixels.contiguous().numpy().tobytes()
            except (OSError, KeyError, RuntimeError, zipfile.BadZipFile, UnreadableImageError):
                yield b"unreadable"
