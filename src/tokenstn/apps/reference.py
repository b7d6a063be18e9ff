"""How answers are distributed on images that the model was made for: what a server compares its own answers with.

``reference.json`` in a model folder holds, for each quantity of an answer, the share of validation images in each of a
few bins. ``measure`` makes it; a server that finds one shows it beside what it sees, and how far apart the two are.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from tokenstn.apps.answer import Answer, describe, look
from tokenstn.data import ImageDataset, ImageTable, collate
from tokenstn.data.dataset import seen_sizes
from tokenstn.models import TokenSTN
from tokenstn.models.preprocessing import preprocessing_of
from tokenstn.system.documents import read_json, shown
from tokenstn.system.files import write_text

FILE = "reference.json"
FORMAT = 1
SHARE_EDGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# upper edges of the bins, the last bin is open; a yes or no has an edge at one half
EDGES: dict[str, tuple[float, ...]] = {
    "rotation_deg": tuple(range(-150, 180, 30)),
    "scale": (0.5, 0.67, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 1.5, 2.0),
    "shear": (-0.5, -0.25, -0.1, -0.03, 0.03, 0.1, 0.25, 0.5),
    "translation": (0.02, 0.05, 0.1, 0.2, 0.4),
    "probability": SHARE_EDGES,
    "views": (1, 2, 3, 4, 6, 8),
    "mirrored": (0.5,),
    "pose_ambiguous": (0.5,),
    "class_uncertain": (0.5,),
}


def edges_of(quantity: str) -> tuple[float, ...]:
    """The edges of a quantity's bins; entropies share theirs."""
    return EDGES.get(quantity, SHARE_EDGES)


def quantities(answer: Answer) -> dict[str, float]:
    """What is counted of an answer: the primitives that the model estimates, its entropies, views and flags.

    A primitive without bins in ``EDGES`` is left out, but for its entropy. A translation is its length in units of half
    the photo's shorter side.
    """
    estimated = answer["estimated"]
    found: dict[str, float | None] = {"probability": answer["probability"], "views": answer["views"]}
    if "rotation" in estimated:
        found["rotation_deg"] = answer["rotation_deg"]
    found |= {name: answer[name] for name in estimated if name in EDGES and name in answer}  # scale, shear
    if "translation" in estimated:
        found["translation"] = 2 * math.hypot(*answer["translation_px"]) / min(answer["photo_px"])
    if "reflection" in estimated:
        found["mirrored"] = answer["mirrored"]
    found |= {f"entropy_{name}": value for name, value in answer["entropy"].items()}
    found |= {name: answer[name] for name in ("pose_ambiguous", "class_uncertain")}
    return {name: float(value) for name, value in found.items() if value is not None}


def bin_of(quantity: str, value: float) -> int:
    """Which bin a value falls in; an edge belongs to the bin below it."""
    return bisect_left(edges_of(quantity), value)


@dataclass(frozen=True)
class Reference:
    """images: how many. source: which, in words. shares: {quantity: one for each bin}. classes: {name: share}."""

    images: int
    source: str
    shares: dict[str, list[float]]
    classes: dict[str, float]

    def __post_init__(self) -> None:
        if not isinstance(self.images, int) or isinstance(self.images, bool) or not isinstance(self.source, str):
            raise ValueError(f"images {shown(self.images)}, source {shown(self.source)}: a whole number, and words")
        rows = self.shares.values() if isinstance(self.shares, dict) else (None,)
        if not all(isinstance(row, list) and all(map(_is_share, row)) for row in rows):
            raise ValueError(f"shares {shown(self.shares)}: for each quantity a list of numbers from 0 to 1")
        if not isinstance(self.classes, dict) or not all(map(_is_share, self.classes.values())):
            raise ValueError(f"classes {shown(self.classes)}: for each class a number from 0 to 1")

    def write(self, folder: Path) -> Path:
        """Put it into a model folder."""
        document = {"format": FORMAT, "edges": {name: list(edges_of(name)) for name in self.shares}, **asdict(self)}
        return write_text(folder / FILE, json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Reference | None:
        """The one in a model folder; None where there is none."""
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            document: Any = read_json(path)
            if document.pop("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            edges = document.pop("edges")
            reference = cls(**document)
            if any(
                edges[name] != list(edges_of(name)) or len(shares) != len(edges[name]) + 1
                for name, shares in reference.shares.items()
            ):
                raise ValueError("its bins are not those of this version")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} cannot be used ({error}): remove it, or measure it again") from error
        return reference


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1 + 1e-9


def summarise(answers: Iterable[Answer], source: str) -> Reference:
    """The distribution of answers, as ``describe`` gives them."""
    counts: dict[str, list[int]] = {}
    classes: dict[str, int] = {}
    images = 0
    for answer in answers:
        images += 1
        for name, value in quantities(answer).items():
            counts.setdefault(name, [0] * (len(edges_of(name)) + 1))[bin_of(name, value)] += 1
        for name in predicted(answer):
            classes[name] = classes.get(name, 0) + 1
    if not images:
        raise ValueError(f"{source} holds no image to measure a reference with")
    shares = {name: [count / sum(row) for count in row] for name, row in counts.items()}
    return Reference(images, source, shares, {name: count / images for name, count in classes.items()})


def predicted(answer: Answer) -> list[str]:
    """The classes of an answer: one, or any number where they do not exclude each other."""
    return answer["prediction"] if isinstance(answer["prediction"], list) else [answer["prediction"]]


def measure(
    model: TokenSTN,
    table: ImageTable,
    split: str | None = "val",
    views: int | str | None = None,
    batch_size: int = 64,
    source: str | None = None,
) -> Reference:
    """The reference of a model on some images, on the device where the model is; unreadable ones are left out.

    source: what the images are called; the table and its split when None.
    """
    prepared = preprocessing_of(model, "this model")
    images = ImageDataset(table, split, **prepared.fitting, on_bad="skip")

    def answers() -> Iterable[Answer]:
        for batch in DataLoader(images, batch_size=batch_size, collate_fn=collate):
            if len(batch["image"]):
                sizes = seen_sizes(table, batch)
                prediction = look(model, batch["image"].to(model.device), prepared, views)
                yield from describe(model, prediction, sizes, prepared)

    return summarise(answers(), source or (table.name if split is None else f"{table.name}, {split}"))


def instability(seen: Sequence[float], expected: Sequence[float]) -> float:
    """Population stability index Σ (s − e) ln(s / e) of two distributions; by custom above 0.25 means: look into it.

    Args:
        seen: how many answers fell in each bin. expected: share of each bin. Half an answer is added to every bin, so
            that an empty one is no infinity.

    >>> round(instability([50, 50], [0.5, 0.5]), 3), round(instability([90, 10], [0.5, 0.5]), 2)
    (0.0, 0.85)
    """
    total, bins = sum(seen), len(seen)
    smooth = [(count + 0.5) / (total + 0.5 * bins) for count in seen]
    wanted = [(share * total + 0.5) / (total + 0.5 * bins) for share in expected]
    return sum((s - e) * math.log(s / e) for s, e in zip(smooth, wanted, strict=True))
