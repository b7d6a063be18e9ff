"""Data sets that come as arrays in one file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from torch import Tensor


def load_npz(path: Path, keys: Sequence[str]) -> dict[str, np.ndarray]:
    """The named arrays of an npz file; nothing in it is unpickled."""
    with _opened(path) as file:
        missing = [key for key in keys if key not in file.files]
        if missing:
            raise ValueError(f"{path} has no {', '.join(missing)}; it has {', '.join(file.files)}")
        return {key: file[key] for key in keys}


def npz_keys(path: Path) -> set[str]:
    """The names of the arrays in an npz file."""
    with _opened(path) as file:
        return set(file.files)


@contextmanager
def _opened(path: Path) -> Iterator[NpzFile]:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        # np.load would leave a broken file open, and take one that is no archive for a pickle
        with zipfile.ZipFile(path), path.open("rb") as content, np.load(content, allow_pickle=False) as file:
            yield file
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
        raise ValueError(f"{path} is truncated, or no npz file ({error}); download it again") from error


def stack(parts: Mapping[str, tuple[np.ndarray, np.ndarray]], source: Path) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Images ``(n, H, W)`` or ``(n, H, W, C)`` and labels of each split, in one: ``(N, C, H, W)``, ``(N, …)``, rows."""
    for split, (images, labels) in parts.items():
        if images.dtype != np.uint8 or images.ndim not in (3, 4) or len(images) != len(labels):
            raise ValueError(
                f"{source}: the {split} images are {images.dtype} {list(images.shape)} with {len(labels)} labels; "
                "expected uint8 (n, H, W) or (n, H, W, C), and a label for each"
            )
    images = torch.from_numpy(np.concatenate([images for images, _ in parts.values()]))
    images = images.unsqueeze(1) if images.ndim == 3 else images.movedim(-1, 1).contiguous()
    labels = torch.from_numpy(np.concatenate([labels for _, labels in parts.values()]))
    sizes = [len(labels) for _, labels in parts.values()]
    rows = torch.arange(len(images)).split(sizes)
    return images, labels, dict(zip(parts, rows, strict=True))
