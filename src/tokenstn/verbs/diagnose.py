"""``tokenstn diagnose``: is my classifier robust? A verdict, the curves behind it, and what to do next."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tokenstn.verbs.sources import ClassifierSource, ImageSource

if TYPE_CHECKING:
    from tokenstn.evaluation.diagnosis import Diagnosis


@dataclass(frozen=True)
class DiagnoseResult:
    """What was found; and the folder with the report, where one was asked for."""

    diagnosis: Diagnosis
    out: Path | None


def diagnose(
    classifier: ClassifierSource,
    images: ImageSource,
    limit: int | None = 500,
    group: str = "rotoscale",
    order: int | None = None,
    scales: int | None = None,
    labels: bool = True,
    out: str | None = None,
    overwrite: bool = False,
    batch_size: int = 64,
    accelerator: str = "auto",
    workers: int = 0,
    seed: int = 0,
    progress: bool = True,
) -> DiagnoseResult:
    """Say whether a classifier is robust when its images are turned and resized; labels are optional.

    Example: tokenstn diagnose resnet50 photos/ --labels=false

    Args:
        classifier: a model folder, a run folder, or a timm name, whose weights are fetched. A rectifier that it may
            have is left out.
        images: a folder, a manifest (.csv, .parquet), a data file (.npz, .zip, .amat), or a name such as mnist-mini.
            Those of the test split are looked at where there is one, and of the images of a run those that it kept
            from training; else all.
        limit: at most so many images, classes in their proportions.
        group: how images are moved: rotation, scale, rotoscale, shear_rotoscale, reflection, translation.
        order: of the group, its number of angles or scales; 16 when left out, 2 for reflection, 3 for translation.
        scales: of rotoscale and shear_rotoscale; 3 when left out.
        labels: false leaves the labels away, for a classifier of other classes: consistency and confidence alone.
        out: a folder for the report; none is written when left out.
        overwrite: replace an evaluation that is there.
        batch_size: images that are looked at together.
        accelerator: cpu, gpu or auto.
        workers: processes that read images.
        seed: of everything that is drawn.
        progress: show a progress bar.
    """
    arguments = dict(locals())

    from tokenstn.evaluation.diagnosis import Remedy, diagnose_answers, needed_for_diagnosis
    from tokenstn.evaluation.evaluate import evaluate as evaluate_model
    from tokenstn.models.bare import without_rectifier
    from tokenstn.verbs import evaluation_folder as folders
    from tokenstn.verbs import evaluation_steps as steps
    from tokenstn.verbs.bars import curves
    from tokenstn.verbs.evaluate import evaluate
    from tokenstn.verbs.models import load_model, place_of
    from tokenstn.verbs.speech import say, warn
    from tokenstn.verbs.typed import as_typed

    console = steps.console()
    scales = 3 if scales is None and group in steps.SCALED else scales
    poses = steps.group_named(group, order, scales)
    if out is None:  # a report shows angles and sizes together, the verdict does not look at those
        poses = needed_for_diagnosis(poses)
    else:
        folders.require_free(Path(out), overwrite)
    device = steps.device_for(accelerator)
    place = place_of(classifier)
    chosen = steps.choose_images(images, steps.TEST_OR_ALL, place, seed)
    model = load_model(classifier, place, chosen.table, labels, console)
    rectifies, bare = bool(model.primitives), without_rectifier(model).to(device)
    table = steps.ready_table(bare, place.name, chosen.table, labels, poses)
    chosen = steps.Chosen(table, chosen.split, chosen.remark)
    steps.say_what_was_understood(console, place, bare, chosen, poses, 1, limit, seed)
    steps.say_how_long(
        console, bare, chosen, poses, device, views=1, limit=limit, seed=seed, batch_size=batch_size, workers=workers
    )
    found = evaluate_model(
        bare,
        table,
        chosen.split,
        group=poses,
        views=1,
        limit=limit,
        batch_size=batch_size,
        workers=workers,
        controls=False,
        cost=False,
        seed=seed,
        progress=progress,
        model_name=place.classifier,
        command=as_typed(diagnose, {**arguments, "classifier": place.name}),
    )
    limited = limit is not None and limit < chosen.count
    remedy = None
    if rectifies:  # on the same images, moved in the same way
        usual = {name: parameter.default for name, parameter in inspect.signature(evaluate).parameters.items()}
        same = {"model": place.name, "data": images, "split": chosen.split or "all", "group": group, "order": order}
        same |= {"scales": scales, "labels": labels, "limit": limit if limited else None, "seed": seed}
        remedy = Remedy(
            "it has a rectifier, which is left out here: see what that gains", as_typed(evaluate, {**usual, **same})
        )
    diagnosis = diagnose_answers(
        found.evaluation,
        found.answers,
        remedy=remedy,
        in_python=not isinstance(classifier, str | Path),
        limited=limited,
    )
    report = None if out is None else folders.write_evaluation(found, Path(out))  # whatever becomes of what is printed
    drawn = curves(diagnosis)
    if drawn:
        console.print(f"\n{drawn}", markup=False)
    console.print(f"\n{place.name}: {diagnosis.verdict}", style="bold", markup=False)
    warn(console, found.evaluation.warnings)
    console.print("\nwhat to do next")
    for step in diagnosis.next_steps:
        console.print(f"  • {step}", markup=False)
    if diagnosis.command is not None:
        console.print(f"      {diagnosis.command}", style="bold", markup=False)
    if report is not None:
        say(console, "report", str(report))
    return DiagnoseResult(diagnosis, None if out is None else Path(out))
