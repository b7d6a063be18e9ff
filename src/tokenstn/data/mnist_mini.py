"""The first run's images, inside the package: 7,000 digits of MNIST (embedded/README.md says whose they are)."""

from __future__ import annotations

from importlib.resources import as_file, files

from tokenstn.data.arrays import load_npz, stack
from tokenstn.data.table import SPLITS, ImageTable


def read_mnist_mini() -> ImageTable:
    """White digits on black, ``(7000, 1, 28, 28)``: 5,000 to train, 1,000 to validate, 1,000 to test.

    >>> {name: len(rows) for name, rows in read_mnist_mini().splits.items()}
    {'train': 5000, 'val': 1000, 'test': 1000}
    """
    with as_file(files("tokenstn.data") / "embedded" / "mnist_mini.npz") as path:
        arrays = load_npz(path, [f"{what}_{split}" for split in SPLITS for what in "xy"])
        images, labels, splits = stack({split: (arrays[f"x_{split}"], arrays[f"y_{split}"]) for split in SPLITS}, path)
    return ImageTable(
        "mnist-mini", images, labels.flatten().long(), tuple("0123456789"), splits, channels=1, upright=True
    )
