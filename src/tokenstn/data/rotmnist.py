"""RotMNIST in its official form: MNIST digits, each at a random angle, as rows of text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tokenstn.data.arrays import stack
from tokenstn.data.table import ImageTable

STEM = "mnist_all_rotation_normalized_float_"
FILES = {"train": f"{STEM}train_valid.amat", "test": f"{STEM}test.amat"}


def read_rotmnist(source: str | Path) -> ImageTable:
    """RotMNIST, ``(62000, 1, 28, 28)``: 12,000 to train (and validate) with, 50,000 to test.

    Args:
        source: the folder of the two ``.amat`` files, or one such file, which then has no splits. Each row is 784
            floats in [0, 1], the image row by row, and the label.
    """
    source = Path(source)
    if source.is_dir():
        absent = [name for name in FILES.values() if not (source / name).is_file()]
        if absent:
            raise ValueError(f"{source} is not RotMNIST: there is no {' and no '.join(absent)}")
        files = {split: source / name for split, name in FILES.items()}
    else:
        files = {"all": source}
    images, labels, splits = stack({split: _read_amat(path) for split, path in files.items()}, source)
    return ImageTable(
        "rotmnist",
        images,
        labels,
        tuple("0123456789"),
        splits if source.is_dir() else {},
        channels=1,
        upright=False,
    )


def _read_amat(path: Path) -> tuple[np.ndarray, np.ndarray]:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        rows = pd.read_csv(path, sep=r"\s+", header=None, dtype=np.float32).to_numpy()
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is not a table of numbers: {error}") from error
    if rows.shape[1] != 785 or not np.isfinite(rows).all():
        raise ValueError(
            f"{path}: a row of RotMNIST has 784 pixels and a label, these have {rows.shape[1]} numbers or gaps"
        )
    pixels, labels = rows[:, :-1], rows[:, -1]
    if pixels.min() < 0 or pixels.max() > 1 or (labels != labels.round()).any():
        raise ValueError(f"{path}: pixels lie in [0, 1] and the last number of a row is a whole label")
    return (pixels * 255).round().astype(np.uint8).reshape(-1, 28, 28), labels.astype(np.int64)
