"""The steps of a training run, in the order in which ``tokenstn train`` takes them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

from tokenstn.data import ImageTable, to_float
from tokenstn.data.splits import split_digest
from tokenstn.evaluation.answers import is_labelled, numbered
from tokenstn.evaluation.enough import fit_enough
from tokenstn.evaluation.evaluate import Examination, evaluate
from tokenstn.evaluation.intervals import wilson_interval
from tokenstn.evaluation.results import Evaluation, Scores
from tokenstn.evaluation.sampling import stratified_limit
from tokenstn.evaluation.uncertainty import halves
from tokenstn.models import TokenSTN
from tokenstn.models.finite import is_answer, why_no_answer
from tokenstn.models.reading import usual_reading
from tokenstn.training.bare import value_by_angle
from tokenstn.training.engine import Machine, Trained, classifier_training
from tokenstn.training.estimate import estimate_seconds
from tokenstn.training.labels import share_right
from tokenstn.training.loading import OnBad, load, prepared
from tokenstn.training.orientation import orientation_predicts_label
from tokenstn.training.recipes import Recipe
from tokenstn.training.rectifier_training import RectifierTraining
from tokenstn.training.sheet import write_contact_sheet
from tokenstn.training.upright import is_upright
from tokenstn.verbs.evaluation_steps import group_for
from tokenstn.verbs.models import place_of
from tokenstn.verbs.run_folder import is_main_process
from tokenstn.verbs.sources import ClassifierSource
from tokenstn.verbs.speech import about, classes_of, classifier_of, name_of, say, warn

PROBED = 512  # validation images that the checks before training look at, at most
EVALUATED = 2000  # validation images that the run is judged by, at most
MENDING = "train it for more --epochs or on more images, with a smaller --rate, or leave it out of --primitives"
LEAST_STEPS = 1200  # of the optimizer, that a rectifier needs however few its images are


def console() -> Console:
    """Where a run speaks; only its first process does."""
    return Console(quiet=not is_main_process(), soft_wrap=True, highlight=False)


def device_of(machine: Machine) -> torch.device:
    """The device that Lightning will take, for what is done before and after its training."""
    wants_gpu = machine.accelerator in ("auto", "gpu", "cuda")
    return torch.device("cuda" if wants_gpu and torch.cuda.is_available() else "cpu")


def enough_epochs(settings: Recipe, images: int, accumulate: int = 1, processes: int = 1) -> Recipe:
    """The recipe with as many epochs as make ``LEAST_STEPS`` steps, where a set of so few images needs more.

    Args:
        accumulate: batches for one step. processes: among which the images are dealt out.

    >>> from tokenstn.training.recipes import DEFAULT
    >>> enough_epochs(DEFAULT, 1280).epochs, enough_epochs(DEFAULT, 60_000).epochs
    (120, 60)
    """
    batches = max(1, images // processes // settings.batch_size)  # in an epoch: a short last batch is left out
    steps = math.ceil(batches / accumulate)  # what is left of the batches at its end makes a step, too
    return replace(settings, epochs=max(settings.epochs, math.ceil(LEAST_STEPS / steps)))


def with_rectifier(
    bare: TokenSTN,
    settings: Recipe,
    primitives: list[str] | None = None,
    shared: int | str | None = None,
    localization_size: float | None = None,
    localization_tokens: int | None = None,
    closer_size: float | None = None,
) -> TokenSTN:
    """The bare model with a fresh rectifier in front, as the recipe and the person ask for it.

    A primitive that is named is the recipe's own, with its bounds, where it has one of that name. Whoever says at which
    size to read says at which to read again, too.
    """
    usual = usual_reading(bare.classifier, bare.backbone.input_size)
    own = {primitive.name: primitive for primitive in settings.primitives or ()}
    return TokenSTN(
        bare.classifier,
        [own.get(name, name) for name in primitives or own or ("rotation", "scale")],
        settings.posterior,
        usual.shared if shared is None else shared,
        usual.localization_size if localization_size is None else localization_size,
        localization_tokens=usual.localization_tokens if localization_tokens is None else localization_tokens,
        closer_size=usual.closer_size if localization_size is None and closer_size is None else closer_size,
        input_size=bare.backbone.input_size,
        multi_label=bare.multi_label,
        preprocessing=bare.preprocessing,
        classes=bare.classes,
    )


def say_what_was_understood(
    out: Console,
    bare: TokenSTN,
    ready: bool,
    model: TokenSTN,
    table: ImageTable,
    settings: Recipe,
    first: Recipe,
    machine: Machine,
    device: torch.device,
    labelled: bool,
) -> None:
    """The first thing a run prints: images, classes, splits, classifier and its accuracy, device, time."""
    assert model.preprocessing is not None
    splits = ", ".join(f"{len(rows):,} {name}" for name, rows in table.splits.items())
    say(out, "images", f"{table.name}: {len(table):,} ({splits}), {classes_of(table)}")
    say(out, "classifier", f"{classifier_of(bare)}, {'as it is' if ready else 'to be trained first'}")
    if ready:
        say_accuracy(out, bare.to(device), table, machine.on_bad)
    names = ", ".join(primitive.name for primitive in model.primitives)
    size = sum(parameter.numel() for parameter in model.localizer.parameters()) if model.localizer else 0
    learns = "learns from labels" if labelled and settings.classification else "needs no labels"
    say(out, "rectifier", f"{names}; {size / 1e6:.2f} M parameters, {learns}")
    rectifying = RectifierTraining(model, settings, model.preprocessing, 0, True, labelled)
    seconds = estimate_seconds(rectifying, table, settings, device)
    if not ready:
        seconds += estimate_seconds(classifier_training(bare, table, first), table, first, device)
    epochs = f"{settings.epochs} epoch{'s' if settings.epochs != 1 else ''}"
    epochs = epochs if ready else f"{first.epochs} + {epochs}"
    say(out, "device", f"{name_of(device)}; {epochs}, {about(seconds)} of training on one such device, then the report")


def kept_apart_before(classifier: ClassifierSource | None, images: ImageTable, seed: int) -> bool:
    """Whether a trained classifier is known to come from a run that kept the same images apart as this one."""
    if not isinstance(classifier, str) or not Path(classifier).is_dir():
        return False
    place = place_of(classifier)
    return place.split_digest == split_digest(images) and (_is_split(images) or place.seed == seed)


def seen_before(classifier: ClassifierSource | None, images: ImageTable, seed: int) -> list[str]:
    """A warning, where a trained classifier may have been trained on images that are kept apart here."""
    if _is_split(images) or classifier is None:
        return []
    in_memory = isinstance(classifier, torch.nn.Module)
    if not in_memory and not Path(classifier).is_dir():
        return []  # a name, whose weights others have trained
    before = None if in_memory else place_of(classifier).seed
    if before == seed:
        return []
    if before is None:
        whence, remedy = "what it was trained on is not known here", "what it has not seen belongs into val/ and test/"
    else:
        whence = f"it comes from a run with seed {before}, and these images are split with seed {seed}"
        remedy = f"--seed {before} splits them as then"
    return [
        f"the classifier may have seen some of the images that are kept for validation and testing ({whence}): their "
        f"figures and the flags then promise too much; {remedy}"
    ]


def _is_split(images: ImageTable) -> bool:
    return {"train", "val", "test"} <= set(images.splits)


def checks_before(
    upright: str, model: TokenSTN, table: ImageTable, folder: Path, out: Console, on_bad: OnBad = "raise"
) -> bool:
    """Say whether the data count as upright and where orientation is the label; the former is returned.

    A contact sheet of training images goes into the folder, so that a person can check.
    """
    assert model.preprocessing is not None
    sheet = folder / "training_images.png"
    if is_main_process():
        write_contact_sheet(prepared(table, "train", model.preprocessing, "skip"), sheet)
    images, labels = _probe(model, table, on_bad)
    single = not table.multi_label and bool(is_labelled(labels).all())
    if single:
        conflicts = orientation_predicts_label(
            lambda x: model.backbone.logits(x).softmax(-1), images, labels, model.primitives, table.classes
        )
        warn(out, (conflict.sentence for conflict in conflicts))
    if upright != "auto":
        stands, why = upright == "yes", "as you say"
    elif table.upright is not None:
        stands, why = table.upright, "so it is known of this data set"
    else:
        verdict = is_upright(value_by_angle(model, images, labels if single else None), len(images), single)
        stands, why = verdict.upright, verdict.sentence
    meaning = "absolute" if stands else "relative: the rectifier makes images consistent with each other, not upright"
    say(out, "upright", f"{'yes' if stands else 'no'}: {why} (see {sheet})")
    say(out, "poses", meaning)
    return stands


def write_reference(model: TokenSTN, table: ImageTable, folder: Path, seed: int) -> None:
    """Write how the answers on validation images are distributed: a server compares its own answers with that."""
    from tokenstn.apps.reference import measure

    rows = stratified_limit(table, "val", EVALUATED, seed)
    measure(model, table.subset(rows), None, source=f"{table.name}, val").write(folder)


def say_what_happened(out: Console, trained: Trained) -> None:
    """What was frozen, and what could not be read."""
    say(out, "classifier", str(trained.frozen))
    if trained.unreadable:
        name, reason = next(iter(trained.unreadable.items()))
        warn(
            out,
            [
                f"{len(trained.unreadable)} images could not be read and were left out, the first is {name}: {reason}; "
                "metrics.json lists them"
            ],
        )
    if trained.skipped_steps:
        count = f"the loss or gradient of {trained.skipped_steps} steps was not finite"
        warn(out, [f"{count}, and they were left out or computed again; not_finite.csv names their images"])


def look_no_longer_than_needed(
    out: Console, model: TokenSTN, table: ImageTable, machine: Machine, seed: int
) -> Tensor | None:
    """Find when one view is enough for this classifier, and let the model stop there; the rows that this was found on.

    They are half of the images that the run is judged by: the other half calibrates the flags, and may not choose
    anything. With few images, or without labels, how sure one view has to be stays as it is: None.
    """
    rows = stratified_limit(table, "val", EVALUATED, seed)
    groups = None if table.groups is None else numbered([str(table.groups[row]) for row in rows.tolist()])
    rows = rows[halves(len(rows), seed, groups)]
    found = fit_enough(model, table, rows, group_for(model.primitives), workers=machine.workers, seed=seed)
    if found is None:
        return None
    model.auto = found.auto
    say(out, "views", found.sentence)
    return rows


def evaluate_run(
    model: TokenSTN, table: ImageTable, command: str, machine: Machine, seed: int, trained: Trained
) -> Examination:
    """What the rectifier does to the validation images; a collapse in training is among its warnings."""
    found = evaluate(
        model,
        table,
        "val",
        group=group_for(model.primitives),
        poses=model.poses,
        limit=EVALUATED,
        workers=machine.workers,
        seed=seed,
        progress=machine.progress,
        command=command,
    )
    seen = found.evaluation.pose
    collapsed = [
        f"{health.sentence}; {MENDING}"
        for name, health in trained.collapse.items()
        if health.collapsed and not (name in seen and seen[name].collapsed)
    ]
    return found._replace(evaluation=replace(found.evaluation, warnings=(*collapsed, *found.evaluation.warnings)))


def beside_as_it_was(
    found: Examination, as_it_was: TokenSTN, model: TokenSTN, table: ImageTable, machine: Machine, seed: int
) -> tuple[Examination, str]:
    """How a classifier did before it was trained along, as a first warning; and a sentence if that was better."""
    was = evaluate(
        as_it_was, table, "val", group=group_for(model.primitives), limit=EVALUATED, workers=machine.workers, seed=seed,
        progress=machine.progress, controls=False, cost=False, examples=0,
    ).evaluation.bare  # fmt: skip
    now = found.evaluation.rectified
    if was.mean is None or was.upright is None or now is None or now.mean is None:  # no validation image has a label
        return found, ""
    remark = (
        f"the classifier as it was is right on {was.upright:.1%} of the images as they come and on {was.mean:.1%} of "
        "the moved ones; “before” is the one that was trained along, without its rectifier"
    )
    harms = "over the moved images the classifier as it was is right more often" if now.mean < was.mean else ""
    return found._replace(evaluation=replace(found.evaluation, warnings=(remark, *found.evaluation.warnings))), harms


def breaks_more_than_it_fixes(evaluation: Evaluation) -> str:
    """A sentence if the rectifier does harm, else nothing; without labels, harm is agreeing with itself less often."""
    if evaluation.flips is not None:
        counts = evaluation.flips.overall
        if counts.broken > counts.fixed:
            return f"the rectifier breaks more answers ({counts.broken:,}) than it fixes ({counts.fixed:,})"
        return ""
    after: Scores | None = evaluation.rectified
    if after is not None and after.consistency < evaluation.bare.consistency:
        before = evaluation.bare.consistency
        return f"moved copies get the same answer less often ({after.consistency:.1%}, before {before:.1%})"
    return ""


def say_accuracy(out: Console, bare: TokenSTN, table: ImageTable, on_bad: OnBad, just_trained: bool = False) -> None:
    """The classifier's accuracy on images as they come, and a warning where it is no better than guessing."""
    images, labels = _probe(bare, table, on_bad)
    with torch.no_grad():
        probabilities = bare.eval()(images).probabilities
    if not bool(is_answer(probabilities).all()):
        raise ValueError(f"the classifier cannot be used on {table.name}: {why_no_answer('float32')}")
    if not table.classes:
        return
    if not bool(is_labelled(labels).all()):
        return
    right = share_right(probabilities, labels)
    say(out, "classifier" if just_trained else "", f"{right:.1%} right on {len(images)} validation images as they come")
    if table.multi_label:
        return
    chance = torch.bincount(labels, minlength=len(table.classes)).max().item() / len(labels)
    low, high = (end.item() for end in wilson_interval(right, torch.tensor(len(labels))))
    if low > chance:
        return
    reason = "the class order probably differs, or the images are prepared in another way than for its training"
    if just_trained:
        reason = "it needs more images or --classifier_epochs, or weights to begin from; no rectifier mends that"
    if high < chance:
        warn(out, [f"that is below chance ({chance:.1%}): {reason}"])
        return
    unsure = f"from {len(labels)} images it may be anything from {low:.0%} to {high:.0%}"
    warn(out, [f"that is near chance ({chance:.1%}), as far as one can see: {unsure}. If it is no better, {reason}"])


def _probe(model: TokenSTN, table: ImageTable, on_bad: OnBad) -> tuple[torch.Tensor, torch.Tensor]:
    """Some validation images of every class ``(n, C, H, W)``, normalised, and their labels, on the model's device.

    Those with a label, where there are any.
    """
    assert model.preprocessing is not None
    device = model.device
    few = table.subset(stratified_limit(table, "val", PROBED))
    batch = next(iter(load(few, "val", model.preprocessing, PROBED, on_bad=on_bad)))
    images = to_float(batch["image"].to(device), model.preprocessing.mean, model.preprocessing.std)
    labels = batch["label"].to(device)
    known = is_labelled(labels)
    return (images[known], labels[known]) if bool(known.any()) else (images, labels)
