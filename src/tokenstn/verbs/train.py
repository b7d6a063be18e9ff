"""``tokenstn train``: from images and a classifier to a robust one, in one run folder."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tokenstn.verbs.sources import ClassifierSource, ImageSource


@dataclass(frozen=True)
class TrainResult:
    """Where the run is, and what ``metrics.json`` says."""

    out: Path
    metrics: dict[str, Any]


def train(
    images: ImageSource,
    classifier: ClassifierSource | None = None,
    out: str = "runs/train",
    recipe: str = "default",
    primitives: list[str] | None = None,
    upright: Literal["auto", "yes", "no"] = "auto",
    labels: bool = True,
    pretrained: bool = True,
    weights: str | None = None,
    input_size: int | None = None,
    shared: int | str | None = None,
    localization_size: int | float | None = None,
    localization_tokens: int | None = None,
    closer_size: int | float | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    rate: float | None = None,
    patience: int | None = None,
    classifier_epochs: int = 40,
    classifier_rate: float | None = None,
    mirror: bool = False,
    seed: int = 0,
    on_bad: Literal["raise", "skip"] = "raise",
    on_nonfinite: Literal["stop", "retry", "skip"] = "stop",
    accelerator: str = "auto",
    devices: int | str = "auto",
    num_nodes: int = 1,
    strategy: str = "auto",
    precision: str = "32-true",
    accumulate: int = 1,
    compile: bool = False,
    logger: str | None = None,
    workers: int = 0,
    resume: bool = False,
    progress: bool = True,
) -> TrainResult:
    """Train a rectifier for a classifier; the classifier stays as it is, or is trained first when it does not fit.

    Example: tokenstn train photos/ --classifier my-model/ --out runs/photos

    Args:
        images: a folder, a manifest (.csv, .parquet), a data file (.npz, .zip, .amat), or a name such as mnist-mini.
        classifier: a trained one as a model folder, or a timm name to train first. Left out, a small ViT is trained on
            images of up to 64 pixels that are one array, such as mnist-mini or MNIST.
        out: the run folder: model/, report.html, metrics.json, config.yaml, checkpoints/, logs/, training_images.png,
            images.sha256.
        recipe: default, with the classifier frozen; joint trains its second half along, with labels, which takes longer
            and gives more on photos; or the paper's: paper, paper-rotmnist, paper-medmnist.
        primitives: what may be corrected: rotation, scale, shear, translation, reflection.
        upright: whether the objects in the images stand upright; auto asks the classifier.
        labels: use the labels of the images. False: of a trained classifier nothing is asked but that it can be shown
            the images, its classes may be others; one that is trained first still needs them.
        pretrained: fetch the weights of a timm name.
        weights: a file with the weights of that name, instead of fetching them; its head is replaced by a new one.
        input_size: side of the images for that name, where it can be chosen.
        shared: how many layers the localizer shares with the classifier, or the name of one; a third of a plain ViT's
            and 2 of others when left out.
        localization_size: pixels of the shorter side at which the localizer reads, or a share of the input such as 0.4;
            when left out 0.36 for a plain ViT, half for others, all of it for images of up to 64 pixels.
        localization_tokens: how many tokens along the shorter side it looks at, means of neighbours where there are
            more; 5 when left out, 14 for images of up to 64 pixels.
        closer_size: as localization_size, but for images whose angle is in doubt after a first reading; when left out
            half for a plain ViT, otherwise, and where localization_size is given, the same as that.
        epochs: of the rectifier; the recipe's when left out: 60 for default and joint, more where that is under 1,200
            steps.
        batch_size: of both; the recipe's when left out.
        rate: peak learning rate of the rectifier; the recipe's when left out.
        patience: stop after so many epochs without a better validation loss, and keep the best one.
        classifier_epochs: of the classifier, where it is trained first.
        classifier_rate: peak learning rate of the classifier; 0.002 for the small ViT, 0.00005 for a timm name, whose
            new head learns twenty times as fast.
        mirror: also show mirrored images, to the classifier that is trained and to the rectifier, where left and right
            carry no meaning.
        seed: of everything that is drawn.
        on_bad: raise an error for an image that cannot be read, or skip and count it.
        on_nonfinite: stop where a loss or a gradient is not finite, retry that step in float32, or skip it;
            not_finite.csv names its images.
        accelerator: cpu, gpu or auto, as Lightning takes it.
        devices: how many, as Lightning takes it.
        num_nodes: machines in a cluster.
        strategy: Lightning's, such as ddp.
        precision: Lightning's, such as bf16-mixed.
        accumulate: batches for one step of the optimizer.
        compile: let torch compile the networks.
        logger: one more of Lightning's loggers beside CSV and TensorBoard, such as WandbLogger.
        workers: processes that read images.
        resume: go on with the run in the folder from its last checkpoint; a finished one stays as it is. SIGTERM and
            Ctrl-C write a checkpoint, and end with exit code 143 and 130.
        progress: show progress bars.
    """
    arguments = dict(locals())

    import torch

    from tokenstn.data import open_images, split_table
    from tokenstn.evaluation.matching import in_order_of, unlabelled_for
    from tokenstn.evaluation.thresholds import fit_thresholds, with_flag_warnings
    from tokenstn.inference.devices import require_devices
    from tokenstn.models.card import write_card
    from tokenstn.system.documents import read_json
    from tokenstn.training.engine import Machine, train_classifier, train_rectifier
    from tokenstn.training.recipes import CLASSIFIER, FINE_TUNED
    from tokenstn.training.recipes import recipe as recipe_named
    from tokenstn.training.rectifier_training import require_learnable
    from tokenstn.training.trainer import processes_of
    from tokenstn.verbs import run_folder
    from tokenstn.verbs import train_steps as steps
    from tokenstn.verbs.classifiers import find_classifier
    from tokenstn.verbs.evaluation_steps import before_and_after
    from tokenstn.verbs.models import METRICS, MODEL, RECTIFIED, outputs_of
    from tokenstn.verbs.speech import say, warn
    from tokenstn.verbs.typed import as_typed

    start = time.monotonic()
    changes = {"epochs": epochs, "batch_size": batch_size, "rate": rate, "patience": patience, "mirror": mirror}
    settings = replace(recipe_named(recipe), **{name: value for name, value in changes.items() if value is not None})
    first = CLASSIFIER if classifier is None else FINE_TUNED
    faster = 1.0 if classifier_rate is None else classifier_rate / first.rate
    first = replace(
        first,
        epochs=classifier_epochs,
        rate=faster * first.rate,
        head_rate=None if first.head_rate is None else faster * first.head_rate,
        batch_size=first.batch_size if batch_size is None else batch_size,
        mirror=mirror,
    )
    machine = Machine(
        accelerator, devices, num_nodes, strategy, precision, accumulate, compile, logger, workers, on_bad, progress,
        on_nonfinite,
    )  # fmt: skip
    require_devices(devices)
    folder = Path(out)
    run_folder.require_free(folder, arguments, resume)
    if run_folder.is_finished(folder):
        say(steps.console(), "done", f"{folder}: it was finished before")
        return TrainResult(folder, read_json(folder / METRICS))
    torch.manual_seed(seed)
    opened = open_images(images)
    run_folder.require_same_images(folder, opened, resume)
    table = split_table(opened, seed=seed)
    begun_with = run_folder.epochs_begun_with(folder, resume)
    if begun_with is not None:
        settings = replace(settings, epochs=begun_with)
    elif epochs is None and recipe in ("default", "joint"):
        settings = steps.enough_epochs(settings, len(table.split("train")), accumulate, processes_of(machine))
    bare, ready = find_classifier(classifier, table, pretrained, weights, input_size, labels)
    if ready and not labels and bare.classes != table.classes:
        table = unlabelled_for(bare, table, outputs_of(bare))
    elif labels:
        table = in_order_of(bare.classes, table)
    model = steps.with_rectifier(
        bare, settings, primitives, shared, localization_size, localization_tokens, closer_size
    )
    labelled = labels and bool(table.classes)
    settings.require_labels(labelled)
    # with auto they may turn out not to be, which is found out after the training of a classifier
    known = table.upright if upright == "auto" else upright == "yes"
    require_learnable(model, settings, ready if known is None else known)
    console = steps.console()
    device = steps.device_of(machine)
    steps.say_what_was_understood(console, bare, ready, model, table, settings, first, machine, device, labelled)
    if labels and table.classes != opened.classes:
        say(console, "classes", "in another order than the classifier has them: the labels follow the classifier")
    warn(console, steps.seen_before(classifier, opened, seed))
    run_folder.begin(folder, {**arguments, "epochs": settings.epochs}, opened)
    if not ready:
        alone = folder / run_folder.CLASSIFIER
        going_on = run_folder.has_checkpoint(alone, resume)
        train_classifier(bare, table, first, alone, seed=seed, machine=machine, resume=going_on)
        steps.say_accuracy(console, bare.to(device), table, on_bad, just_trained=True)
    along = settings.classifier == "joint"
    as_it_was = copy.deepcopy(bare) if along else bare
    stands = steps.checks_before(upright, model.to(device), table, folder, console, on_bad)
    model.poses = "absolute" if stands else "relative"
    going_on = run_folder.has_checkpoint(folder, resume)
    if going_on:
        say(console, "going on", f"from the last checkpoint in {folder}")
    trained = train_rectifier(
        model, table, settings, folder, seed=seed, upright=stands, labelled=labelled, machine=machine,
        resume=going_on,
    )  # fmt: skip
    if not run_folder.is_main_process():
        return TrainResult(folder, {})
    steps.say_what_happened(console, trained)
    model.to(device)
    chosen_by = steps.look_no_longer_than_needed(console, model, table, machine, seed) if labelled else None
    found = steps.evaluate_run(model, table, as_typed(train, arguments), machine, seed, trained)
    harms = steps.breaks_more_than_it_fixes(found.evaluation)
    if along:
        found, harms = steps.beside_as_it_was(found, as_it_was.to(device), model, table, machine, seed)
    console.print(before_and_after(found.evaluation))
    warn(console, (sentence for sentence in found.evaluation.warnings if sentence != harms))
    unseen = not ready or steps.kept_apart_before(classifier, opened, seed)
    model.thresholds = fit_thresholds(
        found.answers,
        model,
        seed=seed,
        chosen_by=chosen_by,
        epoch_chosen=settings.patience is not None if unseen else None,
    )
    for sentence in model.thresholds.sentences:
        say(console, "flags", sentence)
    if harms:
        where = f"{folder / MODEL} is the bare classifier, {folder / RECTIFIED} the rectified one"
        warn(console, [f"{harms}: {where}"])
        model.save_pretrained(folder / RECTIFIED)
    kept = as_it_was.to(device) if harms else model
    kept.save_pretrained(folder / MODEL)
    found = found._replace(evaluation=with_flag_warnings(found.evaluation, kept.thresholds))
    steps.write_reference(kept, table, folder / MODEL, seed)
    metrics = run_folder.metrics_of(trained, found, model.poses, bool(harms), time.monotonic() - start)
    write_card(kept, folder / MODEL, metrics=metrics)
    run_folder.finish(folder, found, metrics)
    say(console, "done", f"{folder}: model/, report.html, metrics.json   {metrics['seconds']:.0f} s")
    return TrainResult(folder, metrics)
