"""What is said about one image, as plain values for JSON: degrees, and pixels of the photo that came in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tokenstn.data import fit, to_float
from tokenstn.inference.poses import Column, pose_columns
from tokenstn.models import Prediction, Preprocessing, TokenSTN
from tokenstn.models.finite import is_answer, why_no_answer
from tokenstn.models.prediction import answer_confidence

Size = tuple[int, int]
Answer = dict[str, Any]

DIGITS = 6  # of the numbers in an answer
NUMBERS = (
    "rotation_deg", "rotation_spread_deg", "scale", "scale_spread", "shear", "shear_spread", "translation_spread_px",
)  # fmt: skip
SHIFT = ("translation_x_px", "translation_y_px")
MIRRORED, ENTROPY = "mirrored", "entropy_"


def prepare(photo: Tensor, preprocessing: Preprocessing) -> Tensor:
    """A photo ``(C, H, W)`` uint8 at the network's size, ``(C, h, w)`` uint8."""
    return fit(photo, preprocessing.size, preprocessing.resize, preprocessing.crop_share, preprocessing.interpolation)


@torch.inference_mode()
def look(model: TokenSTN, images: Tensor, preprocessing: Preprocessing, views: int | str | None = None) -> Prediction:
    """Call a model on prepared images, uint8 ``(B, C, h, w)``, where they lie."""
    normalised = to_float(images, preprocessing.mean, preprocessing.std)
    return model(normalised) if views is None else model(normalised, views=views)  # type: ignore[arg-type]


def describe(
    model: TokenSTN, prediction: Prediction, photo_sizes: Sequence[Size], preprocessing: Preprocessing, top: int = 5
) -> list[Answer]:
    """One answer for each image of a prediction; ``photo_sizes`` are height and width of the photos."""
    probabilities = prediction.probabilities.float().cpu()
    if not bool(is_answer(probabilities).all()):
        raise ValueError(why_no_answer("float32"))
    best = probabilities.topk(min(top, probabilities.shape[1]), 1)
    names = model.class_names(probabilities.shape[1])
    sure = answer_confidence(probabilities, model.multi_label).tolist()
    estimated = [primitive.name for primitive in model.primitives]
    columns = pose_columns(prediction, photo_sizes, preprocessing, estimated) if estimated else {}
    views = [1] * len(probabilities)
    if prediction.views is not None:
        views = (prediction.views.weights > 0).sum(1).tolist()
    apart: list[Any] = [None] * len(probabilities)
    if prediction.disagreement is not None:
        apart = prediction.disagreement.tolist()
    answers: list[Answer] = []
    for row, (shares, classes) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True)):
        several = [names[k] for k in (probabilities[row] > 0.5).nonzero().flatten().tolist()]
        answers.append(
            {
                "prediction": several if model.multi_label else names[classes[0]],
                "probability": _round(sure[row]),
                "top": [{"class": names[k], "probability": _round(p)} for k, p in zip(classes, shares, strict=True)],
                **_pose(columns, row),
                "entropy": _entropies(columns, row),
                "views": views[row],
                "disagreement": None if apart[row] is None else _round(apart[row]),
                "pose_ambiguous": _flag(prediction.pose_ambiguous, row),
                "class_uncertain": _flag(prediction.class_uncertain, row),
                "poses": model.poses,
                "estimated": estimated,
                "photo_px": list(photo_sizes[row][::-1]),
            }
        )
    return answers


def _pose(columns: dict[str, Column], row: int) -> Answer:
    """The pose in the photo; what is not estimated is None. Of other primitives there are the columns alone."""
    numbers = (*NUMBERS, *(name for name in columns if _is_of_another(name)))
    pose: Answer = {name: _round(float(columns[name][row])) if name in columns else None for name in numbers}
    shift = [_round(float(columns[name][row])) for name in SHIFT] if SHIFT[0] in columns else None
    mirrored = bool(columns[MIRRORED][row]) if MIRRORED in columns else None
    return {**pose, "translation_px": shift, "mirrored": mirrored}


def _is_of_another(column: str) -> bool:
    return column not in (*NUMBERS, *SHIFT, MIRRORED) and not column.startswith(ENTROPY)


def _entropies(columns: dict[str, Column], row: int) -> dict[str, float]:
    found = {name: values for name, values in columns.items() if name.startswith(ENTROPY)}
    return {name.removeprefix(ENTROPY): _round(float(values[row])) for name, values in found.items()}


def _flag(flags: Tensor | None, row: int) -> bool | None:
    return None if flags is None else bool(flags[row])


def _round(value: float) -> float:
    return round(value, DIGITS) + 0.0  # + 0.0: no negative zero
