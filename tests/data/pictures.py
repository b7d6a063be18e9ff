"""Small image files for the tests, and where real data may lie."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SHARED = Path(__file__).parents[3] / "shared" / "data"


def picture(path, size=(12, 10), value=100, mode="RGB"):
    """Write an image of one value, (width, height); the path comes back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = value if mode in ("L", "1", "I;16") else (value,) * len(Image.new(mode, (1, 1)).getbands())
    Image.new(mode, size, colour).save(path)
    return path


def noise(height, width, channels=3, seed=0):
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def shared(name):
    """A file of real data, or a skip that says why."""
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{path} is not there: real data are not part of the repository")
    return path
