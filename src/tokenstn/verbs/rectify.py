"""``tokenstn rectify``: photos turned upright at their own resolution, and what was done to each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tokenstn.verbs.sources import ClassifierSource, ImageSource

if TYPE_CHECKING:
    from tokenstn.inference.rectify_job import RectifySummary


@dataclass(frozen=True)
class RectifyResult:
    """Where images/, corrections.csv, rejected.csv and rectify.json are, and what was done in numbers."""

    out: Path
    summary: RectifySummary


def rectify(
    model: ClassifierSource,
    images: ImageSource,
    out: str = "runs/rectify",
    only_confident: bool = False,
    padding: Literal["reflection", "border", "black", "white"] = "reflection",
    canvas: Literal["same", "expand"] = "same",
    sheet: bool = False,
    annotations: str | None = None,
    batch_size: int = 32,
    workers: int | None = None,
    shard_size: int = 256,
    overwrite: bool = False,
    accelerator: str = "auto",
    progress: bool = True,
) -> RectifyResult:
    """Turn photos upright, at their own resolution, format and quality; stopped and called again, it goes on.

    Example: tokenstn rectify runs/photos inbox/ --out upright/ --only_confident=true --sheet=true

    Args:
        model: a run folder, a model folder or an exported .onnx file, with a rectifier.
        images: a folder, searched to any depth; a glob in quotes; a .txt file with a path in each line; a manifest
            (.csv, .parquet), of which the boxes are written; a data file, or a name such as mnist-mini.
        out: the folder to write: images/ with the results under their own names, corrections.csv with what was done to
            each, rejected.csv, rectify.json with the settings; annotations.json and sheet.png where asked for.
        only_confident: leave photos as they are where several poses fit.
        padding: what is shown where the photo ends.
        canvas: same keeps width and height, and may cut off corners; expand makes room for all of the photo.
        sheet: also make a picture of some photos before and after.
        annotations: a COCO file whose boxes, polygons, masks and key points are moved along.
        batch_size: images that are looked at together.
        workers: processes that read and threads that write; when left out one less than there are cores, at most 8.
        shard_size: photos that are done again at most when it stops.
        overwrite: begin anew in a folder that holds results.
        accelerator: cpu, gpu or auto.
        progress: show a progress bar.
    """
    from tokenstn.inference import rectify_job as job_of
    from tokenstn.inference.annotations import read_coco, require_known
    from tokenstn.inference.devices import fleet
    from tokenstn.inference.fingerprint import fingerprint
    from tokenstn.inference.rectify import AMBIGUOUS, Rectifier
    from tokenstn.inference.sources import list_images
    from tokenstn.verbs import predict_steps as steps
    from tokenstn.verbs.models import load_model, place_of
    from tokenstn.verbs.speech import say
    from tokenstn.verbs.train_steps import console as first_process_only
    from tokenstn.verbs.typed import called

    steps.require_counts(batch_size=batch_size, shard_size=shard_size)
    start, folder = time.monotonic(), Path(out)
    console = first_process_only()
    fabric = fleet(accelerator, devices=1)
    place = place_of(model)
    chosen = list_images(images)
    steps.require_apart(folder, chosen, annotations)
    found = load_model(model, place, chosen.table, False, console)
    views = steps.views_for_poses(found, place.name, only_confident)
    coco = None if annotations is None else read_coco(Path(annotations))
    uncalibrated = {} if found.thresholds is None else found.thresholds.uncalibrated
    why_ambiguous = uncalibrated.get("pose_ambiguous", AMBIGUOUS)
    rectifier = Rectifier(chosen, folder / job_of.IMAGES, padding, canvas, only_confident, why_ambiguous)
    if coco is not None:
        if chosen.table.boxes is not None:
            raise ValueError(
                "--annotations are of whole photos, and the manifest cuts boxes out of them: leave one away"
            )
        require_known(coco, (rectifier.name(row).as_posix() for row in range(len(chosen))), Path(str(annotations)))
    settings = {
        "model_name": place.name,
        "model_sha256": fingerprint(found, place.folder),
        "images_name": called(images),
        "views": views,
        "only_confident": only_confident,
        "padding": padding,
        "canvas": canvas,
    }
    wanted = {job_of.TABLE: True, job_of.ANNOTATIONS: coco is not None, job_of.SHEET: sheet}
    job = job_of.rectify_job(folder, found, chosen, shard_size, settings, [name for name in wanted if wanted[name]])
    job.require_same(overwrite)
    fabric.launch()
    if overwrite:
        job_of.remove_photos(job)
    job.begin(overwrite)
    missing = job.missing()
    found.to(fabric.device)
    readers = steps.readers(workers, chosen, fabric, nodes=1)
    steps.say_what_was_understood(console, place, found, chosen, views, "32-true", fabric, job, missing)
    job_of.rectify_images(
        found, rectifier, job, missing, fabric, views=views, batch_size=batch_size, workers=readers, progress=progress
    )
    summary = job_of.finish(job, chosen, coco, sheet)
    steps.say_what_was_done(console, summary, found.poses, found.thresholds)
    seconds = time.monotonic() - start
    others = ", ".join(name for name, wanted in (("annotations.json", coco), ("sheet.png", sheet)) if wanted)
    say(console, "done", f"{folder}: images/, corrections.csv{', ' * bool(others)}{others}   {seconds:.0f} s")
    return RectifyResult(folder, summary)
