"""MNIST from where it already is: torchvision's raw folder, or one npz file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from tokenstn.data.arrays import load_npz, stack
from tokenstn.data.table import ImageTable

PARTS = {"train": "train", "test": "t10k"}


def read_mnist(source: str | Path) -> ImageTable:
    """MNIST with its train and test splits, ``(70000, 1, 28, 28)``.

    Args:
        source: torchvision's root, or the ``MNIST/raw`` in it, whose files may be gzipped; or an npz file with x_train,
            y_train, x_test and y_test.
    """
    source = Path(source)
    if source.is_dir():
        raw = raw_folder(source)
        if raw is None:
            raise ValueError(f"{source} holds no MNIST: looked for {_file('train', 'images')} in it and in MNIST/raw")
        parts = {s: (_read_idx(raw, _file(s, "images")), _read_idx(raw, _file(s, "labels"))) for s in PARTS}
    else:
        arrays = load_npz(source, ("x_train", "y_train", "x_test", "y_test"))
        parts = {split: (arrays[f"x_{split}"], arrays[f"y_{split}"]) for split in PARTS}
    images, labels, splits = stack(parts, source)
    return ImageTable(
        "mnist", images, labels.flatten().long(), tuple("0123456789"), splits, channels=images.shape[1], upright=True
    )


def raw_folder(folder: Path) -> Path | None:
    """Where in a folder torchvision keeps the raw files, if it does."""
    for candidate in (folder, folder / "raw", folder / "MNIST" / "raw"):
        if any((candidate / (_file("train", "images") + suffix)).exists() for suffix in ("", ".gz")):
            return candidate
    return None


def _file(split: str, what: str) -> str:
    return f"{PARTS[split]}-{what}-idx{3 if what == 'images' else 1}-ubyte"


def _read_idx(folder: Path, name: str) -> np.ndarray:
    """An IDX file: two zero bytes, the type (8 = uint8), the number of dimensions, each of them, and the values."""
    plain, packed = folder / name, folder / f"{name}.gz"
    try:
        content = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"MNIST is not complete: there is no {plain}, nor {packed.name}") from None
    except (EOFError, OSError) as error:
        raise ValueError(f"{packed} cannot be unpacked ({error}); download it again") from error
    dimensions = 3 if "idx3" in name else 1
    start = 4 + 4 * dimensions
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
    if content[:4] != bytes((0, 0, 8, dimensions)) or len(content) != start + int(np.prod(shape)):
        raise ValueError(f"{folder / name} is truncated, or no IDX file of bytes; download it again")
    return np.frombuffer(bytearray(content), dtype=np.uint8, offset=start).reshape(shape)
