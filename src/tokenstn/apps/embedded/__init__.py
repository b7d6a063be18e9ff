"""The model and the images that come with the package, so that the page works at once (README.md says whence)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from torch import Tensor

from tokenstn.data import read_mnist_mini
from tokenstn.data.fit import fit_pixels

SIDE = 280  # of the digits as photos


@dataclass(frozen=True)
class Example:
    """A photo ``(C, H, W)`` uint8 to begin with, what it is, and by how many degrees it comes turned."""

    photo: Tensor
    label: str
    turn: float = 0.0


# rows of the test images, and by how many degrees they come turned: clear ones, a 9 that could be a 6, a 0 that has no
# top, a 1 with two, and a 3 that the model doubts
CHOSEN = ((0, 130.0), (4, -100.0), (1, 75.0), (15, 160.0), (598, 0.0), (183, 40.0), (107, 60.0), (18, -35.0))


def embedded_model() -> Path:
    """The folder of the small model for digits."""
    return Path(str(files("tokenstn.apps.embedded") / "model"))


def embedded_examples() -> list[Example]:
    """Digits that the model was not trained on, enlarged to photos, so that they turn smoothly."""
    digits = read_mnist_mini()
    test = digits.split("test")
    examples = []
    for place, turn in CHOSEN:
        row = int(test[place])
        photo = fit_pixels(digits.read(row, 1), (SIDE, SIDE), "squash")
        examples.append(Example(photo, digits.classes[int(digits.labels[row])], turn))
    return examples
