"""What helps a classifier, in words that the terminal and the report share: a rectifier, or a better one first."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tokenstn.evaluation.results import Evaluation

LOW = 0.6  # an accuracy on images as they come that a rectifier cannot mend
LOW_ALREADY = (
    "it is low already as it comes, where no rectifier helps: look whether the images are prepared as in its training "
    "(size, mean and std in config.json), or train it first"
)
SAME_ANSWER = (
    "the classifier gives every image the same answer, so that agreeing with itself means nothing: look whether it was "
    "trained, and for images like these"
)


def is_low(evaluation: Evaluation) -> bool:
    """Whether a bare classifier is so often wrong on images as they come that no rectifier can help."""
    return evaluation.bare.upright is not None and evaluation.bare.upright < LOW


def train_command(data: str, classifier: str, labels: bool, primitives: Sequence[str] = ()) -> str:
    """What to type to put a rectifier in front of a classifier.

    >>> train_command("my photos", "resnet50", labels=False, primitives=["rotation", "scale"])
    "tokenstn train 'my photos' --classifier resnet50 --primitives rotation,scale --labels=false --out runs/rectified"
    """
    words = ["tokenstn", "train", data, "--classifier", classifier]
    words += ["--primitives", ",".join(primitives)] if primitives else []
    words += [] if labels else ["--labels=false"]
    return shlex.join([*words, "--out", "runs/rectified"])
