"""A CSV or Parquet file that lists images: path, label, split, group, and a box to cut out."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from tokenstn.data.folder import SPLIT_NAMES
from tokenstn.data.paths import encode, inside
from tokenstn.data.table import ImageTable, listed

BOX = ("left", "top", "right", "bottom")
COLUMNS = ("path", "label", "split", "group", *BOX)


def read_manifest(manifest: str | Path, classes: Sequence[str] | None = None) -> ImageTable:
    """A manifest as a table. Paths are relative to the manifest's folder and stay inside it.

    Only ``path`` is required. An empty label is unlabelled. Several labels are written ``cat;dog`` (``;`` alone: none
    of the classes), or as a vector of 0 and 1 (``[0, 1, 1]``, or a list in Parquet). A box is left, top, right, bottom
    in pixels of the photo as it is seen; the rows of one photo stay in one split unless a group says otherwise.

    Args:
        classes: their names in order, as a trained classifier has them; None: all that occur, in natural order.
    """
    manifest = Path(manifest)
    frame = _read(manifest)
    unknown = [column for column in frame.columns if column not in COLUMNS]
    if "path" not in frame.columns:
        there = ", ".join(map(str, frame.columns))
        hint = "; columns are separated by commas, not by semicolons" if ";" in there else ""
        raise ValueError(f"{manifest} has no column 'path' (it has {there}); known: {_known()}{hint}")
    if unknown:
        warnings.warn(
            f"{manifest}: ignored {listed(list(map(str, unknown)), 'column')}; known: {_known()}", stacklevel=2
        )
    if frame.empty:
        raise ValueError(f"{manifest} lists no image")
    paths = frame["path"].map(_text).tolist()
    if "" in paths:
        raise ValueError(f"{manifest}: row {paths.index('') + 1} has no path")
    items = [inside(manifest.parent, path, manifest) for path in paths]
    if not any(item.exists() for item in items[:20]):
        raise ValueError(
            f"{manifest}: {items[0]} does not exist, nor do the next; paths are relative to {manifest.parent}"
        )
    labels, names, multi_label = _labels(frame, classes, manifest)
    boxes = _boxes(frame, manifest)
    photos = [os.path.normpath(path) for path in paths]
    groups = photos if boxes is not None or len(set(photos)) < len(photos) else None
    if "group" in frame.columns:
        groups = [text or photo for text, photo in zip(frame["group"].map(_text), photos, strict=True)]
    return ImageTable(manifest.stem, items, labels, names, _splits(frame, manifest), groups, boxes, multi_label)


def _read(manifest: Path) -> pd.DataFrame:
    if not manifest.is_file():
        raise ValueError(f"there is no manifest {manifest}")
    try:
        if manifest.suffix.lower() == ".parquet":
            return pd.read_parquet(manifest)
        return pd.read_csv(manifest, dtype=str, keep_default_na=False, encoding="utf-8-sig", skipinitialspace=True)
    except (ValueError, OSError) as error:  # pandas and pyarrow raise kinds of these
        raise ValueError(f"{manifest} is not a readable CSV or Parquet file: {error}") from error


def _labels(frame: pd.DataFrame, classes: Sequence[str] | None, manifest: Path) -> tuple[Tensor, tuple[str, ...], bool]:
    cells = frame["label"].tolist() if "label" in frame.columns else [""] * len(frame)
    vectors = [_vector(cell) for cell in cells]
    texts = ["" if vector is not None else _text(cell) for cell, vector in zip(cells, vectors, strict=True)]
    if all(re.fullmatch(r"\d+(\.0)?|", text) for text in texts):  # pandas writes whole numbers with gaps as 2.0
        texts = [text.removesuffix(".0") for text in texts]
    if any(vector is not None for vector in vectors):
        width = len(classes) if classes is not None else max(len(v) for v in vectors if v is not None)
        for row, (vector, text) in enumerate(zip(vectors, texts, strict=True), start=1):
            if text or (vector is not None and (len(vector) != width or not set(vector) <= {0, 1})):
                raise ValueError(
                    f"{manifest}: row {row} has the label {text or vector}; here it is {width} times 0 or 1"
                )
        names = tuple(map(str, range(width))) if classes is None else tuple(classes)
        return torch.tensor([[-1.0] * width if v is None else [float(x) for x in v] for v in vectors]), names, True
    if not any(";" in text for text in texts):
        return (*encode(texts, classes, str(manifest)), False)
    several = [[name for part in text.split(";") if (name := part.strip())] for text in texts]
    codes, names = encode((name for row in several for name in row), classes, str(manifest))
    labels = torch.zeros(len(several), len(names))
    rows = [row for row, given in enumerate(several) for _ in given]
    labels[torch.tensor(rows, dtype=torch.int64), codes] = 1.0
    labels[[not text for text in texts]] = -1.0
    return labels, names, True


def _vector(cell: object) -> list | None:
    if isinstance(cell, str) and cell.startswith("[") and cell.endswith("]"):
        try:
            return [int(part) for part in cell[1:-1].replace(",", " ").split()]
        except ValueError:
            return None
    return list(cell) if isinstance(cell, list | tuple | np.ndarray) else None


def _splits(frame: pd.DataFrame, manifest: Path) -> dict[str, Tensor]:
    if "split" not in frame.columns:
        return {}
    given = frame["split"].map(_text).str.lower()
    if (given == "").all():
        return {}
    bad = ~given.isin(SPLIT_NAMES)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{manifest}: row {row + 1} has the split {given[row]!r}; use {', '.join(SPLIT_NAMES)} in every row"
        )
    names = given.map(SPLIT_NAMES).to_numpy()
    return {name: torch.from_numpy(np.flatnonzero(names == name)) for name in ("train", "val", "test") if name in names}


def _boxes(frame: pd.DataFrame, manifest: Path) -> Tensor | None:
    there = [column for column in BOX if column in frame.columns]
    if not there:
        return None
    if len(there) < 4:
        raise ValueError(f"{manifest} has the box columns {', '.join(there)}; a box needs all of {', '.join(BOX)}")
    cells = frame[list(BOX)].map(_text)
    values = cells.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64, copy=True)
    blank = (cells.to_numpy(dtype=str) == "").all(axis=1)
    bad = ~np.isfinite(values).all(axis=1) & ~blank
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{manifest}: row {row + 1} has the box {cells.iloc[row].tolist()}; give four numbers, or none"
        )
    values[blank] = -1
    outward = np.concatenate((np.floor(values[:, :2]), np.ceil(values[:, 2:])), axis=1)
    return torch.from_numpy(outward.astype(np.int64))


def _text(cell: object) -> str:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)) or cell is pd.NA:
        return ""
    if isinstance(cell, float) and cell.is_integer():  # integers with gaps are read as floats
        return str(int(cell))
    return str(cell).strip()


def _known() -> str:
    return ", ".join(COLUMNS)
