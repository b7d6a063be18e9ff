"""A folder of any size through a model, into Parquet, on as many devices as there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from lightning.fabric import Fabric

import tokenstn
from tokenstn.inference.columns import AnswerColumns
from tokenstn.inference.progress import bar
from tokenstn.inference.shards import ShardFolder
from tokenstn.inference.sources import ImageList
from tokenstn.inference.stream import Views, answers
from tokenstn.models import TokenSTN
from tokenstn.system.files import written_whole
from tokenstn.system.processes import reading_processes

SCHEMA = "tokenstn.predictions/1"
SETTINGS, PARTS, SHEET = "predict.json", "predictions", "predictions.csv"


@dataclass(frozen=True)
class Summary:
    """What a finished job holds. Counts are of images; what the model does not tell is None."""

    images: int
    predicted: int
    rejected: int
    pose_ambiguous: int | None
    class_uncertain: int | None
    median_rotation_deg: float | None


def prediction_job(
    folder: Path, model: TokenSTN, images: ImageList, shard_size: int, settings: Mapping[str, Any], csv: bool = False
) -> ShardFolder:
    """The folder that the predictions go to. ``settings``: whatever else they depend on, as JSON has it."""
    if shard_size < 1:
        raise ValueError(f"--shard_size {shard_size}: at least 1")
    whole = {
        "schema": SCHEMA,
        "tokenstn": tokenstn.__version__,
        **settings,
        "poses": model.poses if model.primitives else None,
        "primitives": [primitive.name for primitive in model.primitives],
        "images": len(images),
        "images_sha256": images.digest,
        "shard_size": shard_size,
    }
    return ShardFolder(folder, SETTINGS, PARTS, len(images), shard_size, whole, (SHEET,), (SHEET,) * csv)


@reading_processes()  # torch tells of the death of one wherever this process just is
def predict_images(
    model: TokenSTN,
    images: ImageList,
    job: ShardFolder,
    shards: list[int],
    fabric: Fabric,
    *,
    views: Views = "auto",
    top: int = 5,
    batch_size: int = 64,
    workers: int = 0,
    progress: bool = False,
) -> None:
    """Write these shards. A process takes every n-th of them, where n processes run."""
    mine = shards[fabric.global_rank :: fabric.world_size]
    columns = AnswerColumns(model, images, views, top, dict(job.settings))
    rows, rejected = [], []
    stream = answers(model, images, job, mine, fabric, views=views, batch_size=batch_size, workers=workers)
    with bar("predict", sum(len(job.rows(shard)) for shard in mine), progress and fabric.is_global_zero) as advance:
        for answered in stream:
            rows.append(columns.rows(answered))
            rejected += answered.rejected
            advance(len(answered.rows) + len(answered.rejected))
            if answered.last:
                job.write(answered.shard, pa.Table.from_batches(rows, schema=columns.schema), rejected)
                rows, rejected = [], []


def summarise(job: ShardFolder) -> Summary:
    """Look at every shard once, and write ``rejected.csv``."""
    rejected = job.write_rejected()
    predicted, angles = 0, [np.zeros(0, dtype=np.float32)]
    raised: dict[str, int | None] = {"pose_ambiguous": None, "class_uncertain": None}
    for table in job.read(["rotation_deg", *raised]):
        predicted += len(table)
        if "rotation_deg" in table.column_names:
            angles.append(np.abs(table["rotation_deg"].to_numpy()))
        for flag in raised:
            column = table[flag]
            if column.null_count < len(column):
                raised[flag] = (raised[flag] or 0) + sum(map(bool, column.to_pylist()))
    if predicted + rejected != job.images:
        raise RuntimeError(f"{predicted} predictions and {rejected} rejected images of {job.images}: a mistake")
    turned = np.concatenate(angles)
    return Summary(
        job.images, predicted, rejected, **raised, median_rotation_deg=float(np.median(turned)) if len(turned) else None
    )


def write_sheet(job: ShardFolder) -> Path:
    """``predictions.csv``, for a spreadsheet: all shards in one file, without the columns that hold lists."""
    path = job.folder / SHEET
    # with the mark that Excel tells UTF-8 by; others read over it
    with written_whole(path) as unfinished, unfinished.open("w", encoding="utf-8-sig", newline="") as lines:
        for number, table in enumerate(job.read(None)):
            flat = [field.name for field in table.schema if not pa.types.is_list(field.type)]
            table.select(flat).to_pandas().to_csv(lines, index=False, header=number == 0)
    return path
