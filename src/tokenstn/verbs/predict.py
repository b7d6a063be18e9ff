"""``tokenstn predict``: what a model says about every image of a folder, in Parquet."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tokenstn.verbs.sources import ClassifierSource, ImageSource

if TYPE_CHECKING:
    from tokenstn.inference.predict import Summary


@dataclass(frozen=True)
class PredictResult:
    """Where predictions/, rejected.csv and predict.json are; None as summary in all processes but the first."""

    out: Path
    summary: Summary | None


def predict(
    model: ClassifierSource,
    images: ImageSource,
    out: str = "runs/predict",
    views: int | Literal["auto"] = "auto",
    top: int = 5,
    batch_size: int = 64,
    workers: int | None = None,
    shard_size: int = 4096,
    csv: bool = False,
    overwrite: bool = False,
    accelerator: str = "auto",
    devices: int | str = "auto",
    num_nodes: int = 1,
    precision: str = "32-true",
    progress: bool = True,
) -> PredictResult:
    """Predict class and pose of any number of images, into Parquet; stopped and called again, it goes on.

    Example: tokenstn predict runs/photos inbox/ --out predictions/inbox

    Args:
        model: a run folder, a model folder, an exported .onnx file, or a timm name, whose weights are fetched.
        images: a folder, searched to any depth; a glob in quotes; a .txt file with a path in each line; a manifest
            (.csv, .parquet), whose boxes are cut out; a data file, or a name such as mnist-mini. Labels play no part.
        out: the folder to write: predictions/ with part-000000.parquet and so on, rejected.csv with what could not be
            read and why, predict.json with the settings.
        views: how many rectified views are averaged; auto is as many as each image needs.
        top: how many classes are listed for each image.
        batch_size: images that are looked at together.
        workers: processes that read images, for each device; when left out one less than there are cores, at most 8.
        shard_size: images in one file; no more than those in work are lost when it stops.
        csv: also write predictions.csv, the same for a spreadsheet, but for the columns that hold lists.
        overwrite: begin anew in a folder that holds predictions.
        accelerator: cpu, gpu or auto, as Lightning takes it.
        devices: how many, which ones, such as 0,1, or auto.
        num_nodes: machines in a cluster.
        precision: 32-true, bf16-mixed or 16-mixed; the flags are given only in the one that they were calibrated for.
        progress: show a progress bar.
    """
    from tokenstn.inference import predict as job_of
    from tokenstn.inference.devices import company, fleet
    from tokenstn.inference.fingerprint import fingerprint
    from tokenstn.inference.sources import list_images
    from tokenstn.verbs import predict_steps as steps
    from tokenstn.verbs.models import load_model, place_of
    from tokenstn.verbs.speech import say
    from tokenstn.verbs.train_steps import console as first_process_only
    from tokenstn.verbs.typed import called

    steps.require_counts(views=views, top=top, batch_size=batch_size)
    steps.require_folder_name(Path(out))
    start = time.monotonic()
    console = first_process_only()
    fabric = fleet(accelerator, devices, num_nodes, precision)
    place = place_of(model)
    chosen = list_images(images)
    found = load_model(model, place, chosen.table, False, console)
    looked = views if found.primitives else 1
    settings = {
        "model_name": place.name,
        "model_sha256": fingerprint(found, place.folder),
        "images_name": called(images),
        "views": looked,
        "top": top,
        "precision": precision,
    }
    job = job_of.prediction_job(Path(out), found, chosen, shard_size, settings, csv)
    job.require_same(overwrite)
    fabric.launch()
    if fabric.is_global_zero:
        job.begin(overwrite)
    missing, digest = fabric.broadcast((job.missing(), chosen.digest))
    if digest != chosen.digest:
        raise ValueError("the images changed while the processes started: call it again when they are all there")
    found.to(fabric.device)
    readers = steps.readers(workers, chosen, fabric, num_nodes)
    steps.say_what_was_understood(console, place, found, chosen, looked, precision, fabric, job, missing)
    with company(fabric):
        job_of.predict_images(
            found, chosen, job, missing, fabric, views=looked, top=top, batch_size=batch_size, workers=readers,
            progress=progress,
        )  # fmt: skip
        fabric.barrier()
    if not fabric.is_global_zero:
        return PredictResult(Path(out), None)
    summary = job_of.summarise(job)
    steps.say_what_was_found(console, summary, found.thresholds)
    sheet = f"{job_of.write_sheet(job).name}, " if csv else ""
    done = sum(len(job.rows(shard)) for shard in missing)
    seconds = time.monotonic() - start
    speed = f"   {seconds:.0f} s, {done / seconds:,.0f} images/s with loading" if done else "   was done already"
    say(
        console,
        "done",
        f"{Path(out)}: {job.parts}/ ({len(job):,} file{'s' * (len(job) > 1)}), {sheet}rejected.csv{speed}",
    )
    return PredictResult(Path(out), summary)
