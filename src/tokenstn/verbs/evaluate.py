"""``tokenstn evaluate``: what a model does under every pose, in one folder with a report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tokenstn.verbs.sources import ClassifierSource, ImageSource

if TYPE_CHECKING:
    from tokenstn.evaluation.results import Evaluation


@dataclass(frozen=True)
class EvaluateResult:
    """Where report.html, metrics.json, answers.npz and figures/ are, and what metrics.json says."""

    out: Path
    evaluation: Evaluation


def evaluate(
    model: ClassifierSource,
    data: ImageSource | None = None,
    split: Literal["train", "val", "test", "all"] = "test",
    group: str = "rotation",
    order: int | None = None,
    scales: int | None = None,
    views: int | Literal["auto"] = "auto",
    labels: bool = True,
    limit: int | None = None,
    out: str | None = None,
    overwrite: bool = False,
    batch_size: int = 64,
    accelerator: str = "auto",
    controls: bool = True,
    cost: bool = True,
    workers: int = 0,
    seed: int = 0,
    progress: bool = True,
) -> EvaluateResult:
    """Measure a model under every pose of a group: accuracy, consistency, flips, calibration, doubt, cost.

    Example: tokenstn evaluate runs/photos --data photos/ --group rotoscale --scales 3

    Args:
        model: a run folder, a model folder, an exported model.onnx, or a timm name, whose weights are fetched.
        data: a folder, a manifest (.csv, .parquet), a data file (.npz, .zip, .amat), or a name such as mnist-mini.
        split: which images; all takes every one. Where the data have no splits, those that training keeps apart.
        group: how images are moved: rotation, scale, rotoscale, shear_rotoscale, reflection, translation.
        order: of the group, its number of angles or scales; 16 when left out, 2 for reflection, 3 for translation.
        scales: of rotoscale and shear_rotoscale; as many as angles when left out.
        views: how many rectified views are averaged; auto is as many as each image needs, or as were exported.
        labels: false leaves the labels away: consistency and confidence alone, for any classifier.
        limit: at most so many images, classes in their proportions.
        out: the folder to write; in the run folder, or runs/evaluate, when left out.
        overwrite: replace an evaluation that is there.
        batch_size: images that are looked at together.
        accelerator: cpu, gpu or auto.
        controls: also check that the seams of moved images play no part, on 500 images.
        cost: also count FLOPs and measure images per second.
        workers: processes that read images.
        seed: of everything that is drawn.
        progress: show a progress bar.
    """
    arguments = dict(locals())

    from tokenstn.evaluation.evaluate import evaluate as evaluate_model
    from tokenstn.models.onnx import OnnxModel
    from tokenstn.verbs import evaluation_folder as folders
    from tokenstn.verbs import evaluation_steps as steps
    from tokenstn.verbs.models import load_model, place_of
    from tokenstn.verbs.speech import say, warn
    from tokenstn.verbs.typed import as_typed, called

    if data is None:
        raise ValueError("name the images to evaluate on: --data with a folder, a file, or a name such as mnist-mini")
    if views != "auto" and views < 1:
        raise ValueError(f'--views {views}: a number from 1 up, or "auto"')
    console = steps.console()
    poses = steps.group_named(group, order, scales)
    device = steps.device_for(accelerator)
    place = place_of(model)
    chosen = steps.choose_images(data, split, place, seed)
    folder = folders.folder_for(out, place, called(data), chosen.split, poses)
    folders.require_free(folder, overwrite)
    found_model = load_model(model, place, chosen.table, labels, console).to(device)
    table = steps.ready_table(found_model, place.name, chosen.table, labels, poses, found_model.poses)
    chosen = steps.Chosen(table, chosen.split, chosen.remark)
    looked = views if found_model.primitives else 1
    if isinstance(found_model, OnnxModel):
        looked = found_model.views_for(views)
    steps.say_what_was_understood(console, place, found_model, chosen, poses, looked, limit, seed)
    steps.say_how_long(
        console, found_model, chosen, poses, device, views=looked, limit=limit, seed=seed, batch_size=batch_size,
        workers=workers, controls=controls, cost=cost,
    )  # fmt: skip
    found = evaluate_model(
        found_model,
        table,
        chosen.split,
        group=poses,
        views=looked,
        poses=found_model.poses,
        limit=limit,
        batch_size=batch_size,
        workers=workers,
        controls=controls,
        cost=cost,
        seed=seed,
        progress=progress,
        model_name=place.name,
        command=as_typed(evaluate, {**arguments, "model": place.name}),
    )
    page = folders.write_evaluation(found, folder)
    evaluation = found.evaluation
    console.print(steps.before_and_after(evaluation))
    flips = steps.flips_in_words(evaluation)
    if flips:
        say(console, "flips", flips)
    warn(console, evaluation.warnings)
    say(console, "report", f"{page}   {evaluation.provenance.seconds:.0f} s")
    return EvaluateResult(folder, evaluation)
