"""What ``tokenstn predict`` and ``tokenstn rectify`` do alike: what they refuse, how they read, what they say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from lightning.fabric import Fabric
from rich.console import Console
from torch import Tensor

from tokenstn.inference.devices import PRECISIONS
from tokenstn.inference.predict import Summary
from tokenstn.inference.rectify_job import ANNOTATIONS, IMAGES, RectifySummary
from tokenstn.inference.shards import ShardFolder
from tokenstn.inference.sources import ImageList
from tokenstn.models import TokenSTN
from tokenstn.models.onnx import OnnxModel
from tokenstn.models.thresholds import Thresholds
from tokenstn.system.processes import usable_cores
from tokenstn.verbs.evaluation_steps import model_in_words
from tokenstn.verbs.models import RECTIFIED, ModelPlace
from tokenstn.verbs.speech import name_of, say, warn

MOST_READERS = 8
ONE_FILE = (".csv", ".tsv", ".parquet", ".json", ".jsonl", ".xlsx")
RELATIVE = "poses are relative: they make images consistent with each other, and say nothing about what is upright"


def require_counts(**counts: int | str) -> None:
    """Refuse numbers below 1."""
    for name, count in counts.items():
        if isinstance(count, int) and count < 1:
            either = ', or "auto"' if name == "views" else ""
            raise ValueError(f"--{name} {count}: a number from 1 up{either}")


def require_folder_name(out: Path) -> None:
    """Refuse a name that asks for one file; a folder that is called so already may be gone on with."""
    if out.suffix.lower() in ONE_FILE and not out.is_dir():
        raise ValueError(
            f"--out {out}: predictions go into a folder, as Parquet: choose a name such as {out.with_suffix('')}; "
            "--csv=true leaves a predictions.csv in it as well"
        )


def readers(workers: int | None, images: ImageList, fabric: Fabric, nodes: int) -> int:
    """How many processes read images for a device of one of several machines; none where they are in memory already."""
    if workers is not None:
        if workers < 0:
            raise ValueError(f"--workers {workers}: 0, which reads in the same process, or more")
        return workers
    if isinstance(images.table.items, Tensor):
        return 0
    processes = max(1, fabric.world_size // nodes)
    return max(1, min(MOST_READERS, usable_cores() // processes - 1))


def say_what_was_understood(
    out: Console,
    place: ModelPlace,
    model: TokenSTN,
    images: ImageList,
    views: int | str,
    precision: str,
    fabric: Fabric,
    job: ShardFolder,
    missing: Sequence[int],
) -> None:
    """Model, images, what is left to do, devices."""
    say(out, "model", f"{place.name}: {model_in_words(model)}")
    boxes = "" if images.table.boxes is None else ", cut out of photos"
    others = f", {images.others:,} other file{'s' * (images.others > 1)} ignored" if images.others else ""
    say(out, "images", f"{images.table.name}: {len(images):,}{boxes}{others}")
    left = sum(len(job.rows(shard)) for shard in missing)
    if left < len(images):
        say(out, "going on", f"{len(images) - left:,} are done already, {left:,} to do")
    several = f", {fabric.world_size} processes" if fabric.world_size > 1 else ""
    say(out, "device", f"{name_of(fabric.device)}{several}, {PRECISIONS[precision]}")
    if model.primitives and model.poses == "relative":
        say(out, "poses", RELATIVE)
    if model.thresholds is None:
        how = "tokenstn export finds with --data" if isinstance(model, OnnxModel) else "tokenstn train finds at the end"
        say(out, "flags", f"none: this model has no thresholds, which {how}")
        return
    why_not = model.thresholds.why_not(model.call_settings(views, precision=PRECISIONS[precision]))
    if why_not is not None:
        warn(out, [why_not])


def say_what_was_found(out: Console, summary: Summary, limits: Thresholds | None) -> None:
    """Images, flags and poses in a few lines; ``limits``: what the flags were raised by."""
    say(out, "images", f"{summary.predicted:,} predicted, {summary.rejected:,} could not be read")
    if summary.rejected:
        warn(out, ["rejected.csv says which images could not be read, and why"])
    total, uncalibrated = max(summary.predicted, 1), {} if limits is None else limits.uncalibrated
    for flag, meaning in (("class_uncertain", "do not trust the label"), ("pose_ambiguous", "several poses fit")):
        raised = getattr(summary, flag)
        if raised is not None:
            say(out, "flags", f"{flag} on {raised:,}, {raised / total:.1%}: {uncalibrated.get(flag, meaning)}")
    if summary.median_rotation_deg is not None:
        say(out, "poses", f"turned by {summary.median_rotation_deg:.1f}° in the median, either way")


def require_apart(folder: Path, images: ImageList, annotations: str | None) -> None:
    """Refuse to write photos among those that are read, which would be found and corrected the next time, or over
    them; and annotations over those that are read.
    """
    where = images.root
    if where is not None and folder.resolve().is_relative_to(where.resolve()):
        raise ValueError(f"--out {folder} lies inside {where}, where the images are read: choose a folder elsewhere")
    if where is not None and where.resolve().is_relative_to((folder / IMAGES).resolve()):
        raise ValueError(f"--out {folder} would write over the images in {where}: choose a folder elsewhere")
    if annotations is not None and Path(annotations).resolve() == (folder / ANNOTATIONS).resolve():
        raise ValueError(f"--out {folder} would write over {annotations}: choose a folder elsewhere")


def views_for_poses(model: TokenSTN, name: str, only_confident: bool) -> int | Literal["auto"]:
    """How a model is called when only its poses are wanted: as its flags were calibrated, else with one view."""
    if not model.primitives:
        kept = Path(name) / RECTIFIED  # where a run keeps a rectifier that broke more than it fixed
        how = (
            f"the run kept the bare classifier, because its rectifier broke more than it fixed; {kept} has that one"
            if kept.is_dir()
            else "tokenstn train makes one"
        )
        raise ValueError(f"{name} has no rectifier, so that there is nothing to correct: {how}")
    limits = model.thresholds
    if limits is not None and limits.of_pose is not None:
        return limits.settings.views  # type: ignore[return-value]
    if only_confident:
        raise ValueError(
            f"{name} has no thresholds for its poses, so that it cannot say where several fit: train it with tokenstn "
            "train, which finds them, or leave --only_confident away"
        )
    return "auto" if isinstance(model, OnnxModel) else 1  # a file has a number of views of its own


def say_what_was_done(out: Console, summary: RectifySummary, poses: str, limits: Thresholds | None) -> None:
    """Photos, reasons, annotations; ``limits``: what the flags were raised by."""
    aim = "consistent with each other, not upright: poses are relative" if poses == "relative" else "upright"
    say(out, "images", f"{summary.corrected:,} of {summary.images:,} corrected, to be {aim}")
    uncalibrated = {} if limits is None else limits.uncalibrated
    if "pose_ambiguous" in uncalibrated:
        say(out, "flags", f"pose_ambiguous: {uncalibrated['pose_ambiguous']}")
    for reason, count in sorted(summary.left.items(), key=lambda item: -item[1]):
        say(out, "", f"{count:,} left as they are: {reason}")
    if summary.rejected:
        warn(out, [f"{summary.rejected:,} could not be read; rejected.csv says which, and why"])
    if summary.annotations is not None:
        gone = (
            f", {summary.annotations_gone:,} of them left the picture and are gone" if summary.annotations_gone else ""
        )
        say(out, "annotations", f"{summary.annotations:,} moved along{gone}")
