"""Every photo of a folder corrected, in shards, with a table of what was done to each."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from lightning.fabric import Fabric
from torch import Tensor

import tokenstn
from tokenstn.data import UnreadableImageError, read_image
from tokenstn.data.sheet import shrunk, write_sheet
from tokenstn.inference.annotations import Coco, move_annotations
from tokenstn.inference.poses import photo_poses
from tokenstn.inference.progress import bar
from tokenstn.inference.rectify import Correction, Rectifier
from tokenstn.inference.shards import Rejected, ShardFolder
from tokenstn.inference.sources import ImageList
from tokenstn.inference.stream import Answered, Views, answers
from tokenstn.models import TokenSTN
from tokenstn.models.preprocessing import preprocessing_of
from tokenstn.system.files import write_text, written_whole
from tokenstn.system.processes import reading_processes

SCHEMA = "tokenstn.corrections/2"
SETTINGS, PARTS, IMAGES = "rectify.json", ".corrections", "images"
DERIVED = TABLE, ANNOTATIONS, SHEET = "corrections.csv", "annotations.json", "sheet.png"
SHOWN, PLACE = 24, 160  # photos on a sheet, and pixels for each
COLUMNS = tuple(field.name for field in fields(Correction))
_KINDS = {"str": pa.string(), "bool": pa.bool_(), "bool | None": pa.bool_(), "int": pa.int32(), "float": pa.float64()}
_ARROW = pa.schema([(field.name, _KINDS[str(field.type)]) for field in fields(Correction)])


@dataclass(frozen=True)
class RectifySummary:
    """Counts of photos: corrected, or left as they are for a reason; and of annotations that have left the picture."""

    images: int
    corrected: int
    rejected: int
    left: dict[str, int]
    annotations: int | None = None
    annotations_gone: int | None = None


def rectify_job(
    folder: Path,
    model: TokenSTN,
    images: ImageList,
    shard_size: int,
    settings: Mapping[str, Any],
    writes: Sequence[str] = (TABLE,),
) -> ShardFolder:
    """The folder that the results go to.

    settings: whatever else they depend on, as JSON has it. writes: which files beside the photos, of ``DERIVED``.
    """
    whole = {
        "schema": SCHEMA,
        "tokenstn": tokenstn.__version__,
        **settings,
        "poses": model.poses,
        "images": len(images),
        "images_sha256": images.digest,
        "shard_size": shard_size,
    }
    return ShardFolder(folder, SETTINGS, PARTS, len(images), shard_size, whole, DERIVED, tuple(writes), IMAGES)


def remove_photos(job: ShardFolder) -> None:
    """Forget the shards that an earlier job has finished in this folder, and remove their photos."""
    for part in (job.folder / job.parts).glob("part-*.parquet"):
        try:
            names = pq.read_table(part, columns=["file"])["file"].to_pylist()
        except pa.ArrowInvalid:  # it is broken, and says nothing of any photo
            names = []
        part.unlink()  # first: what it says is done has to be there
        for name in names:
            photo = (job.folder / IMAGES / name).resolve()
            if photo.is_relative_to((job.folder / IMAGES).resolve()):  # whoever wrote the file
                photo.unlink(missing_ok=True)


@reading_processes()  # torch tells of the death of one wherever this process just is
def rectify_images(
    model: TokenSTN,
    rectifier: Rectifier,
    job: ShardFolder,
    shards: list[int],
    fabric: Fabric,
    *,
    views: Views,
    batch_size: int = 64,
    workers: int = 0,
    progress: bool = False,
) -> None:
    """Write the photos of these shards, and keep what was done once all of a shard are on disk."""
    done: list[Correction] = []
    rejected: list[Rejected] = []
    images = rectifier.images
    stream = answers(model, images, job, shards, fabric, views=views, batch_size=batch_size, workers=workers)
    total = sum(len(job.rows(shard)) for shard in shards)
    with ThreadPoolExecutor(max(1, workers)) as writers, bar("rectify", total, progress) as advance:
        for answered in stream:
            rejected += answered.rejected
            advance(len(answered.rejected))
            for result in writers.map(lambda task: _correct(rectifier, *task), _tasks(model, answered)):
                if isinstance(result, Correction):
                    done.append(result)
                else:
                    rejected.append(result)
                advance(1)
            if answered.last:
                job.write(answered.shard, pa.Table.from_pylist([asdict(row) for row in done], _ARROW), rejected)
                done, rejected = [], []


def finish(job: ShardFolder, images: ImageList, coco: Coco | None, sheet: bool) -> RectifySummary:
    """corrections.csv, rejected.csv and, where asked for, annotations.json and sheet.png, from what the shards keep."""
    left: dict[str, int] = {}
    corrected = 0
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for correction in corrections(job):
        corrected += correction.corrected
        if not correction.corrected:
            reason = correction.why_not.partition(" (")[0]  # what differs from photo to photo is in corrections.csv
            left[reason] = left.get(reason, 0) + 1
        lines.writerow(_cells(correction))
    write_text(job.folder / TABLE, text.getvalue())
    rejected = job.write_rejected()
    if sheet:
        _write_before_and_after(job, images)
    if coco is None:
        return RectifySummary(job.images, corrected, rejected, left)
    moved = move_annotations(coco, corrections(job))
    write_text(job.folder / ANNOTATIONS, json.dumps(moved.coco) + "\n")
    return RectifySummary(job.images, corrected, rejected, left, moved.total, moved.gone)


def corrections(job: ShardFolder) -> Iterator[Correction]:
    """What was done to each photo, in their order."""
    for table in job.read(COLUMNS):
        yield from (Correction(**row) for row in table.to_pylist())


def _tasks(model: TokenSTN, answered: Answered) -> list[tuple[int, Tensor, bool | None]]:
    prediction = answered.prediction
    if prediction is None:
        return []
    poses = photo_poses(prediction, answered.sizes, preprocessing_of(model))
    flags = prediction.pose_ambiguous
    ambiguous = [None] * len(answered.rows) if flags is None else flags.tolist()
    return list(zip(answered.rows, poses, ambiguous, strict=True))


def _correct(rectifier: Rectifier, row: int, pose: Tensor, ambiguous: bool | None) -> Correction | Rejected:
    try:
        return rectifier(row, pose, ambiguous)
    except UnreadableImageError as error:
        return rectifier.images.table.item_name(row), error.reason


def _cells(correction: Correction) -> list[Any]:
    words = {True: "yes", False: "no", None: ""}
    return [
        words[value]
        if isinstance(value, bool) or value is None
        else round(value, 6)
        if isinstance(value, float)
        else value
        for value in asdict(correction).values()
    ]


def _write_before_and_after(job: ShardFolder, images: ImageList) -> None:
    """Up to ``SHOWN`` photos from all over the list, each before and after."""
    every = max(1, job.images // SHOWN)
    # a name with bytes that are no text is not kept as it is, and not found again
    named = (done for done in corrections(job) if (job.folder / IMAGES / done.file).is_file())
    shown = [correction for number, correction in enumerate(named) if number % every == 0][:SHOWN]
    tiles, titles = [], []
    for correction in shown:
        before, box = images.table.read(correction.row, channels=3), images.table.box(correction.row)
        before = before if box is None else before[:, box[1] : box[3], box[0] : box[2]]
        after = read_image(job.folder / IMAGES / correction.file)
        tiles += [shrunk(tile, PLACE, keep_aspect=True) for tile in (before, after)]  # whole photos would be dear
        name = Path(correction.file).name
        titles += [name if len(name) < 18 else f"{name[:7]}…{name[-8:]}", _what(correction)]
    with written_whole(job.folder / SHEET) as beside:
        write_sheet(tiles, beside, columns=6, side=PLACE, titles=titles)


def _what(correction: Correction) -> str:
    if not correction.corrected:
        return "as it was"
    mirrored = ", mirrored" if correction.mirrored else ""
    return f"{-correction.rotation_deg:+.0f}°{mirrored}"
