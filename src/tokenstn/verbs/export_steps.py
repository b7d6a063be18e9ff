"""The steps of ``tokenstn export``: image files to check it on, its flags, and what it says at the end."""

from __future__ import annotations

from rich.console import Console

from tokenstn.data import open_images
from tokenstn.evaluation.orbit import answer_orbit
from tokenstn.evaluation.photos import load_photos
from tokenstn.evaluation.sampling import stratified_limit
from tokenstn.evaluation.thresholds import fit_thresholds
from tokenstn.inference.bundle_pictures import pictures_of
from tokenstn.inference.export import Calibrate, Exported
from tokenstn.models import Thresholds, TokenSTN
from tokenstn.models.onnx import OnnxModel
from tokenstn.verbs.evaluation_steps import Chosen, group_for, ready_table
from tokenstn.verbs.sources import ImageSource
from tokenstn.verbs.speech import say


def pictures(images: ImageSource | None, data: Chosen | None, limit: int, seed: int) -> dict[str, bytes] | None:
    """Files to check the export on: those that were named, else some of the data; None for those in the package."""
    if images is not None:
        table = open_images(images)
        chosen = Chosen(table, None)
    elif data is not None:
        chosen = data
    else:
        return None
    found = pictures_of(chosen.table, stratified_limit(chosen.table, chosen.split, limit, seed))
    if not found:
        raise ValueError(f"none of the images of {chosen.table.name} could be read: name others with --images")
    return found


def calibration(
    model: TokenSTN, name: str, chosen: Chosen, views: int, limit: int, seed: int, progress: bool, out: Console
) -> Calibrate:
    """How the flags of an exported file are calibrated: with its own answers to moved images."""
    group = group_for(model.primitives)
    table = ready_table(model, name, chosen.table, True, group, model.poses)
    rows = stratified_limit(table, chosen.split, limit, seed)

    def calibrate(exported: OnnxModel) -> Thresholds:
        where = "images" if chosen.split is None else f"images of the {chosen.split} split"
        say(out, "calibrating", f"{len(rows):,} {where} of {table.name}, {len(group)} poses each")
        if chosen.remark:
            say(out, "", chosen.remark)
        looked = exported.views_for(views if model.primitives else None)
        photos = load_photos(table, rows, exported.info.preprocessing)
        answers = answer_orbit(exported, photos, group, views=looked, seed=seed, progress=progress)
        return fit_thresholds(answers, exported, views=looked, seed=seed)

    return calibrate


def say_what_was_made(out: Console, model: TokenSTN, made: Exported, views: int, tolerance: float) -> None:
    """Flags, differences, files, and what to do with them."""
    limits = made.info.thresholds
    for sentence in () if limits is None else limits.sentences:
        say(out, "flags", sentence)
    if limits is None:
        looks = "" if model.bare else f" with {views} view{'s' if views > 1 else ''}"
        needed = "give --data with labelled images that the model was not trained on"
        say(out, "flags", f"none: they have to be calibrated for ONNX{looks}; {needed}")
    for name, differences in made.differences.items():
        others = {output: gap for output, gap in differences.items() if output not in ("probabilities", "rectified")}
        worst = max(others, key=lambda output: others[output], default=None)
        more = "" if worst is None else f", {others[worst]:.1e} in others ({worst})"
        said = f"{differences['probabilities']:.1e} in probabilities (allowed {tolerance:.0e}){more}"
        say(out, "checked", f"{name} against PyTorch on {made.images} image files: at most {said}")
    files = sorted(path for path in made.folder.iterdir() if path.is_file())
    sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in files if path.stem == "model")
    say(out, "wrote", f"{made.folder}: {sizes}; {', '.join(p.name for p in files if p.stem != 'model')}, golden/")
    if "onnx" in made.differences:
        say(out, "try", f"python {made.folder / 'predict.py'} photo.jpg")
