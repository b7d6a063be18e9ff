"""Data sets that come as arrays in one file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from torch import Tensor

from tokenstn.system.documents import in_short, shown


def load_npz(path: Path, keys: Sequence[str]) -> dict[str, np.ndarray]:
    """The named arrays of an npz file; nothing in it is unpickled."""
    with _opened(path) as file:
        missing = [key for key in keys if key not in file.files]
        if missing:
            raise ValueError(f"{path} has no {', '.join(missing)}; it has {', '.join(file.files)}")
        try:
            arrays = {key: file[key] for key in keys}
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError):
            raise
        except Exception as error:  # what numpy makes of a head that was changed; objects are pickles, and refused
            raise ValueError(f"{path} cannot be read ({in_short(error)}); download it again") from error
    if not all(
        isinstance(array, np.ndarray) for array in arrays.values()
    ):  # numpy gives what it does not know as bytes
        raise ValueError(f"{path} holds something else than arrays; download it again")
    return arrays


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
        with zipfile.ZipFile(path), path.open("rb") as content, _as_arrays(content, path) as file:
            yield file
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
        raise ValueError(f"{path} is truncated, or no npz file ({error}); download it again") from error


def _as_arrays(content: IO[bytes], path: Path) -> NpzFile:
    try:
        return np.load(content, allow_pickle=False)
    except ValueError as error:  # neither arrays nor an archive: numpy takes it for a pickle
        raise ValueError(f"{path} is no npz file; download it again") from error


def stack(parts: Mapping[str, tuple[np.ndarray, np.ndarray]], source: Path) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Images ``(n, H, W)`` or ``(n, H, W, C)`` and labels of each split, in one: ``(N, C, H, W)``, ``(N, …)``, rows."""
    for split, (images, labels) in parts.items():
        if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.shape[:1] != labels.shape[:1]:
            raise ValueError(
                f"{source}: the {split} images are {images.dtype} {list(images.shape)} with {labels.size} labels; "
                "expected uint8 (n, H, W) or (n, H, W, C), and a label for each"
            )
        if labels.dtype.kind not in "iub":
            raise ValueError(f"{source}: the {split} labels are {labels.dtype}; expected whole numbers")
    for what, shapes in (
        ("images", {images.shape[1:] for images, _ in parts.values()}),
        ("labels", {labels.shape[1:] for _, labels in parts.values()}),
    ):
        if len(shapes) > 1:
            raise ValueError(f"{source}: the {what} of its splits have several shapes, {shown(sorted(shapes))}")
    images = torch.from_numpy(np.concatenate([images for images, _ in parts.values()]))
    images = images.unsqueeze(1) if images.ndim == 3 else images.movedim(-1, 1).contiguous()
    labels = torch.from_numpy(np.concatenate([labels for _, labels in parts.values()]))
    sizes = [len(labels) for _, labels in parts.values()]
    rows = torch.arange(len(images)).split(sizes)
    return images, labels, dict(zip(parts, rows, strict=True))
