"""What ``tokenstn evaluate`` and ``tokenstn diagnose`` do alike: which images, which movements, and what they say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from tokenstn.data import ImageTable, open_images, split_table
from tokenstn.data.splits import split_digest
from tokenstn.evaluation.answers import is_labelled
from tokenstn.evaluation.estimate import estimate_seconds
from tokenstn.evaluation.evaluate import CONTROL_IMAGES
from tokenstn.evaluation.matching import check_match, in_order_of, unlabelled_for
from tokenstn.evaluation.method import Views
from tokenstn.evaluation.photos import load_photos
from tokenstn.evaluation.results import Evaluation, Scores
from tokenstn.evaluation.sampling import stratified_limit
from tokenstn.geometry import Group, Primitive, group, reflection_group, rotation_group, scale_group
from tokenstn.geometry.groups import GROUPS
from tokenstn.models import TokenSTN
from tokenstn.reports.words import worst_place
from tokenstn.verbs.models import ModelPlace, outputs_of, require_outputs
from tokenstn.verbs.sources import ImageSource
from tokenstn.verbs.speech import about, classes_of, classifier_of, name_of, say

TEST_OR_ALL = "test or all"  # the test split where there is one, else every image
SCALED = ("rotoscale", "shear_rotoscale")  # groups that have a number of scales
CONTROL_PASSES = 26  # how often the controls look at an image
COST_SECONDS, COST_PASSES = 20.0, 24  # that measuring the cost takes at most; and in passes over a batch
REPORT_SECONDS = 5.0  # for intervals, gallery and figures
LONG = 300.0  # seconds after which a person would rather look at fewer images


@dataclass(frozen=True)
class Chosen:
    """The images to look at: ``split`` of the table, None = all rows. remark: how they were chosen, where not plain."""

    table: ImageTable
    split: str | None
    remark: str = ""

    @property
    def count(self) -> int:
        """How many images there are to look at."""
        return len(self.table) if self.split is None else len(self.table.split(self.split))


def console() -> Console:
    """Where a verb speaks."""
    return Console(soft_wrap=True, highlight=False)


def group_named(name: str, order: int | None, scales: int | None) -> Group:
    """A group by its name; its own order when None."""
    if scales is not None and name in GROUPS and name not in SCALED:
        raise ValueError(f"--scales goes with the groups {' and '.join(SCALED)}; {name} has an --order only")
    settings = {} if scales is None else {"scales": scales}
    if order is None:
        return group(name, 16, **settings) if name not in GROUPS else GROUPS[name](**settings)
    return group(name, order, **settings)


def group_for(primitives: Iterable[Primitive]) -> Group:
    """What a rectifier is judged by where nobody says: rotations, unless it does not correct those."""
    names = [primitive.name for primitive in primitives]
    if "rotation" in names or not {"scale", "reflection"} & set(names):
        return rotation_group(16)
    return scale_group(8) if "scale" in names else reflection_group()


def device_for(accelerator: str) -> torch.device:
    """cpu, gpu, or what there is."""
    if accelerator not in ("auto", "cpu", "gpu", "cuda"):
        raise ValueError(f"--accelerator {accelerator}: cpu, gpu or auto")
    if accelerator in ("gpu", "cuda") and not torch.cuda.is_available():
        raise ValueError(f"--accelerator {accelerator}: torch sees no GPU here; use cpu or auto")
    return torch.device("cpu" if accelerator == "cpu" or not torch.cuda.is_available() else "cuda")


def choose_images(data: ImageSource, split: str, place: ModelPlace, seed: int) -> Chosen:
    """The images of a split; where the data lack it, those that ``tokenstn train`` keeps from training.

    They are split by the seed of the run that the model comes from, or by ``seed`` where that is not known. Of
    ``TEST_OR_ALL`` all are taken where nothing says that the model was trained on some of them.
    """
    table = open_images(data)
    if isinstance(data, str | Path):
        table = replace(table, name=str(data))  # what was typed can be typed again
    known = place.split_digest
    hint = "" if split == TEST_OR_ALL else "; --split all takes every image"
    if split == TEST_OR_ALL:
        seen = known is not None and known == split_digest(table)
        split = "test" if "test" in table.splits or seen else "all"
    if split == "all":
        return Chosen(table, None)
    if split in table.splits:
        return Chosen(table, split)
    if table.splits and "train" not in table.splits:
        raise ValueError(
            f"{table.name} has no {split} split (there are: {', '.join(table.splits)}): choose one of these with "
            "--split, or --split all"
        )
    if place.seed is None:
        which = (
            "these are what tokenstn train would keep apart; another training on these data may have shown them to it"
        )
    elif known in (None, split_digest(table)):
        which = "these are the images that training keeps apart"
    else:
        which = "it was trained on others, or they have changed since, so that some of these may have been among them"
    seed = seed if place.seed is None else place.seed
    remark = f"the data have no {split} split: {which} (seed {seed}){hint}"
    return Chosen(split_table(table, seed=seed), split, remark)


def ready_table(
    model: TokenSTN, name: str, table: ImageTable, labels: bool, group: Group, poses: str = "absolute"
) -> ImageTable:
    """The table as the model can be judged on it: its labels must be the model's classes, in any order, or go."""
    outputs = outputs_of(model)
    labelled = labels and bool(is_labelled(table.labels).any())
    table = table if labelled else unlabelled_for(model, table, outputs)
    check_match(model, in_order_of(model.classes, table), group, poses)
    if labelled:
        require_outputs(name, outputs, table)
    return table


def say_what_was_understood(
    out: Console,
    place: ModelPlace,
    model: TokenSTN,
    chosen: Chosen,
    group: Group,
    views: Views,
    limit: int | None,
    seed: int,
) -> None:
    """The first thing an evaluation prints: model, images, movements."""
    say(out, "model", f"{place.name}: {model_in_words(model)}")
    table, split, whole = chosen.table, chosen.split, chosen.count
    looked_at = len(stratified_limit(table, split, limit, seed))
    count = f"{looked_at:,} of {whole:,}" if looked_at < whole else f"{whole:,}"
    where = "images" if split is None else f"images of the {split} split"
    say(out, "images", f"{table.name}: {count} {where}, {classes_of(table)}")
    if chosen.remark:
        say(out, "", chosen.remark)
    looks = f", {views} view{'s' if views != 1 else ''} each" if model.primitives else ""
    element = "element" if len(group) == 1 else "elements"
    say(out, "group", f"{group.name}: {len(group):,} {element}{looks.replace('auto views', 'as many views as needed')}")


def say_how_long(
    out: Console,
    model: TokenSTN,
    chosen: Chosen,
    group: Group,
    device: torch.device,
    *,
    views: Views,
    limit: int | None,
    seed: int,
    batch_size: int,
    workers: int,
    controls: bool = False,
    cost: bool = False,
) -> None:
    """The device, and the time it will take there, from a few batches of it."""
    assert model.preprocessing is not None
    rows = stratified_limit(chosen.table, chosen.split, limit, seed)
    photos = load_photos(chosen.table, rows, model.preprocessing, batch_size, workers)
    orbit = estimate_seconds(model, photos, group, views=views, device=device)
    one_pass = orbit / (len(rows) * len(group))  # over one image
    seconds = orbit + REPORT_SECONDS
    seconds += controls * CONTROL_PASSES * min(len(rows), CONTROL_IMAGES) * one_pass
    seconds += cost * min(COST_SECONDS, COST_PASSES * batch_size * one_pass)
    hint = "; a smaller --limit is quicker" if seconds > LONG else ""
    say(
        out,
        "device",
        f"{name_of(device)}; {about(seconds)}{', part of it after the bar' if controls or cost else ''}{hint}",
    )


def before_and_after(evaluation: Evaluation) -> Table:
    """The outcome as a table for people: accuracy, or agreement with itself where there are no labels."""
    labelled = evaluation.bare.mean is not None
    columns = ("upright", "mean", "95 % interval", "worst", "best") if labelled else ("least",)
    shown = Table(f"{evaluation.images:,} images", *columns, "same answer", box=None, padding=(0, 2, 0, 0))
    both = (("before", evaluation.bare), ("after", evaluation.rectified))
    for name, scores in both if evaluation.rectified is not None else (("classifier", evaluation.bare),):
        if scores is None:
            continue
        cells = _cells(evaluation, scores) if labelled else (_worst(evaluation, scores),)
        shown.add_row(name, *cells, f"{scores.consistency:.1%}")
    return shown


def flips_in_words(evaluation: Evaluation) -> str:
    """What rectification changed; empty where that is not known."""
    if evaluation.flips is None:
        return ""
    counts = evaluation.flips.overall
    return (
        f"{counts.fixed:,} of {counts.base_wrong:,} wrong answers fixed, "
        f"{counts.broken:,} of {counts.base_right:,} right ones broken"
    )


def _cells(evaluation: Evaluation, scores: Scores) -> tuple[str, ...]:
    assert scores.upright is not None and scores.mean is not None and scores.best is not None
    interval = f"{100 * scores.mean_ci.low:.1f}–{scores.mean_ci.high:.1%}" if scores.mean_ci else "–"
    worst, best = _worst(evaluation, scores), f"{scores.best:.1%}"
    return f"{scores.upright:.1%}", f"{scores.mean:.1%}", interval, worst, best


def _worst(evaluation: Evaluation, scores: Scores) -> str:
    where = worst_place(evaluation, scores)
    value = min(scores.by_element or scores.consistency_by_element)
    if where is None:
        return f"{value:.1%}"
    return f"{value:.1%} {where}" if where.startswith(("mirrored", "shifted")) else f"{value:.1%} at {where}"


def model_in_words(model: TokenSTN) -> str:
    """What a model is made of, and what it corrects."""
    if not model.primitives:
        return f"{classifier_of(model)}, without a rectifier"
    names = ", ".join(primitive.name for primitive in model.primitives)
    return f"{classifier_of(model)}; corrects {names}, poses are {model.poses}"
