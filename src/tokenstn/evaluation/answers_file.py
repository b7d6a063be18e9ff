"""``answers.npz``: which answers were right, kept beside ``metrics.json`` so that runs can be compared image by image.

A paired comparison needs to know where each model was wrong, not only how often. One bit for each answer and its class
are enough for that; probabilities are not kept. No pickle.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tokenstn.data.arrays import load_npz, npz_keys
from tokenstn.evaluation.answers import Answers, Responses
from tokenstn.evaluation.results import Evaluation, Scores
from tokenstn.system.files import write_bytes

ANSWERS = "answers.npz"
FORMAT = 1
KEYS = ("format", "rows", "clusters", "labelled", "shape", "bare_correct", "bare_predicted")
SMALLEST = (np.uint8, np.uint16, np.int32, np.int64)  # the first type that holds all classes is taken


@dataclass(frozen=True)
class KeptResponses:
    """correct: ``(E, N)`` bool, or ``(E, N, L)`` for each label; predicted ``(E, N)``: as in ``Responses``."""

    correct: Tensor
    predicted: Tensor

    @property
    def right(self) -> Tensor:
        """How right each answer is, ``(E, N)`` float64: 1 or 0, or the share of its labels."""
        return self.correct.double() if self.correct.ndim == 2 else self.correct.double().mean(-1)


@dataclass(frozen=True)
class KeptAnswers:
    """E elements, N images: rows in the table ``(N,)``, clusters ``(N,)``, labelled ``(N,)`` bool, and the answers."""

    rows: Tensor
    clusters: Tensor
    labelled: Tensor
    bare: KeptResponses
    rectified: KeptResponses | None

    def belongs_to(self, evaluation: Evaluation) -> bool:
        """Whether the evaluation was made from these answers: the same shape and the same shares."""
        if self.bare.predicted.shape != (len(evaluation.elements), evaluation.images):
            return False
        if (self.rectified is None) != (evaluation.rectified is None):
            return False
        return all(
            _made_from(kept, self.labelled, scores)
            for kept, scores in ((self.bare, evaluation.bare), (self.rectified, evaluation.rectified))
            if kept is not None and scores is not None
        )


def save_answers(answers: Answers, folder: str | Path) -> Path:
    """Write ``answers.npz`` into a folder, all of it or nothing."""
    correct = answers.bare.correct
    arrays: dict[str, NDArray[Any]] = {
        "format": np.array(FORMAT),
        "rows": answers.rows.numpy(),
        "clusters": answers.clusters.numpy(),
        "labelled": answers.labelled.numpy(),
        "shape": np.array(correct.shape),
        **_packed("bare", answers.bare),
    }
    if answers.rectified is not None:
        arrays |= _packed("rectified", answers.rectified)
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    return write_bytes(Path(folder) / ANSWERS, content.getvalue())


def load_answers(folder: str | Path) -> KeptAnswers | None:
    """What ``save_answers`` wrote into a folder; None where there is no such file."""
    path = Path(folder) / ANSWERS
    if not path.is_file():
        return None
    try:
        rectified = [key for key in npz_keys(path) if key.startswith("rectified_")]
        arrays = load_npz(path, (*KEYS, *rectified))
        if int(arrays["format"]) != FORMAT:
            raise ValueError(f"its format is {int(arrays['format'])}, and {FORMAT} is read")
        return KeptAnswers(
            rows=torch.from_numpy(arrays["rows"]),
            clusters=torch.from_numpy(arrays["clusters"]),
            labelled=torch.from_numpy(arrays["labelled"]),
            bare=_unpacked("bare", arrays),
            rectified=_unpacked("rectified", arrays) if rectified else None,
        )
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{path} cannot be read ({error}); remove it, or run tokenstn evaluate again") from error


def _made_from(kept: KeptResponses, labelled: Tensor, scores: Scores) -> bool:
    if scores.by_element is None:
        measured, stated = (kept.predicted == kept.predicted[:1]).double().mean(1), scores.consistency_by_element
    else:
        measured, stated = kept.right[:, labelled].mean(1), scores.by_element
    return torch.allclose(measured, torch.tensor(stated, dtype=torch.float64), rtol=0.0, atol=1e-6)


def _packed(name: str, responses: Responses) -> dict[str, NDArray[Any]]:
    predicted = responses.predicted.numpy()
    low, high = int(predicted.min()), int(predicted.max())
    kind = next(kind for kind in SMALLEST if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return {f"{name}_correct": np.packbits(responses.correct.numpy()), f"{name}_predicted": predicted.astype(kind)}


def _unpacked(name: str, arrays: dict[str, NDArray[Any]]) -> KeptResponses:
    shape = tuple(int(length) for length in arrays["shape"])
    packed, predicted = arrays[f"{name}_correct"], arrays[f"{name}_predicted"]
    numbers = all(arrays[key].dtype.kind in "iub" for key in ("shape", "rows", "clusters", f"{name}_predicted"))
    if not numbers or min(shape, default=0) < 1 or -(-math.prod(shape) // 8) != packed.size or packed.ndim != 1:
        raise ValueError(f"its {name} answers are not as many as it says")
    images = tuple(len(arrays[key]) for key in ("rows", "clusters", "labelled"))
    if arrays["labelled"].dtype != np.bool_ or images != (shape[1],) * 3 or predicted.shape != shape[:2]:
        raise ValueError(f"its {name} answers are for {predicted.shape} elements and images, others for {images}")
    bits = np.unpackbits(packed, count=math.prod(shape)).astype(bool)
    return KeptResponses(torch.from_numpy(bits.reshape(shape)), torch.from_numpy(predicted.astype(np.int64)))
