"""Losses, gradients and activations that are not finite, in the middle of a training on files."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import timm
import torch
from PIL import Image
from record import Drill
from torch import Tensor

from tokenstn import Preprocessing, TokenSTN
from tokenstn.data import ImageTable, open_images, split_table
from tokenstn.training import keeping
from tokenstn.training.classifier_training import ClassifierTraining
from tokenstn.training.engine import Machine, Trained, train_classifier
from tokenstn.training.recipes import CLASSIFIER

KINDS = ("loss", "gradient", "activations")
RECIPE = replace(CLASSIFIER, epochs=3, batch_size=8, rate=1e-3)
PREPARED = Preprocessing((24, 24), (0.5,) * 3, (0.25,) * 3)
SHOWN = 8  # images in a batch
Policy = Literal["stop", "retry", "skip"]
ENDS: dict[Policy, str] = {
    "stop": "ends the run",
    "retry": "is computed again in float32, and the run ends as if nothing had been",
    "skip": "is left out and changes nothing",
}


def wrong_steps(drill: Drill, folder: Path, each: int, draw: random.Random) -> None:
    """Break steps at random; ``each`` of every kind and policy."""
    keeping.SECONDS = 0.0
    table = _table(folder / "photos")
    steps = len(table.split("train")) // RECIPE.batch_size
    undisturbed = _network()
    train_classifier(undisturbed, table, RECIPE, folder / "undisturbed", machine=_machine("stop"))
    for policy, ends in ENDS.items():
        wrong: list[str] = []
        for kind in KINDS:
            for number in range(each):
                at = (draw.randrange(RECIPE.epochs), draw.randrange(steps))
                run = folder / f"{policy}-{kind}-{number}"
                problems = _try(table, run, policy, kind, at, steps, undisturbed.state_dict())
                wrong += [f"{kind} in step {at}: {problem}" for problem in problems]
        drill.found(
            f"a step with a loss or gradient that is not finite {ends}; its images are named (--on_nonfinite={policy})",
            f"{len(KINDS) * each} steps that went wrong, a third each in the loss, the gradient and the activations: "
            f"{len(wrong)} were treated otherwise{': ' + wrong[0] if wrong else ''}; no checkpoint holds a number that "
            "is none",
            not wrong,
        )


def explosions(drill: Drill, folder: Path) -> None:
    """Learning rates that are far too high, without any help."""
    table, wrong, ended = _table(folder / "photos"), [], {}
    for rate in (1e10, 1e20, 1e30):
        out = folder / f"{rate:g}"
        try:
            train_classifier(_network(), table, replace(RECIPE, rate=rate), out, machine=_machine("stop"))
            ended[rate] = "was trained to the end"
        except ValueError as error:
            ended[rate] = str(error).split(" (", 1)[0].split(", ", 1)[0]
        wrong += _broken_checkpoints(out)
    drill.found(
        "a run that explodes by itself ends with a sentence, and its checkpoints stay finite",
        "; ".join(f"rate {rate:g}: {how}" for rate, how in ended.items()),
        not wrong and any("not finite" in how for how in ended.values()),
    )


def _try(
    table: ImageTable,
    out: Path,
    policy: Policy,
    kind: str,
    at: tuple[int, int],
    steps: int,
    undisturbed: dict[str, Tensor],
) -> list[str]:
    """Train with one wrong step, and say what is not as promised; undisturbed: the weights of a run without it."""
    problems, seen, error = [], [], ""
    model = _network()
    with _broken(kind, at, seen):
        try:
            trained: Trained | None = train_classifier(model, table, RECIPE, out, machine=_machine(policy))
        except ValueError as raised:
            trained, error = None, str(raised)
    step = at[0] * steps + at[1]
    with (out / "not_finite.csv").open(encoding="utf-8") as file:
        listed = [(int(row["epoch"]), int(row["step"]), row["path"]) for row in csv.DictReader(file)]
    names = [table.item_name(row) for row in seen[0]]
    if listed != [(at[0], step, name) for name in names] or len(names) != SHOWN:
        problems.append(f"not_finite.csv lists {listed[:2]} …")
    if policy == "stop" and (f"not finite in step {step} (epoch {at[0]})" not in error or names[0] not in error):
        problems.append(f"it says “{error}”")
    if policy != "stop" and (trained is None or trained.skipped_steps != 1 or not _is_finite(trained)):
        problems.append(f"the run ends with “{error}”, {trained}")
    if policy == "skip" and not _same(seen[1], seen[2]):
        problems.append("weights, moments or statistics have changed in the step")
    if policy == "retry" and not _same(undisturbed, model.state_dict()):
        problems.append("the weights at the end are not those of a run without a wrong step")
    return problems + _broken_checkpoints(out)


@contextmanager
def _broken(kind: str, at: tuple[int, int], seen: list[Any]) -> Iterator[None]:
    """Break one step, when it is first computed; ``seen`` gets its rows, and the state before and after."""
    whole, start = ClassifierTraining.training_step, ClassifierTraining.on_train_batch_start
    end = getattr(ClassifierTraining, "on_train_batch_end")  # noqa: B009

    def training_step(self: ClassifierTraining, batch: dict[str, Any], number: int) -> Tensor | None:
        if (self.current_epoch, number) != at or seen:
            return whole(self, batch, number)
        seen.append(batch["index"].tolist())
        seen.append(_state(self))
        hook = None
        if kind == "activations":
            layer = self.model.classifier.get_submodule("conv1")
            hook = layer.register_forward_hook(lambda _, __, output: output * math.inf)
        loss = whole(self, batch, number)
        if hook is not None:
            hook.remove()
        if kind == "gradient":
            assert loss is not None
            loss.register_hook(lambda gradient: gradient * math.nan)
        return loss * math.nan if kind == "loss" and loss is not None else loss

    def on_train_batch_end(self: ClassifierTraining, outputs: Any, batch: Any, number: int) -> None:
        if (self.current_epoch, number) == at:
            seen.append(_state(self))

    ClassifierTraining.training_step, ClassifierTraining.on_train_batch_end = training_step, on_train_batch_end
    try:
        yield
    finally:
        ClassifierTraining.training_step, ClassifierTraining.on_train_batch_start = whole, start
        ClassifierTraining.on_train_batch_end = end


def _state(module: ClassifierTraining) -> dict[str, Tensor]:
    """Weights, statistics, and the moments of the optimizer."""
    kept = {name: value.clone() for name, value in module.state_dict().items()}
    for place, state in module.trainer.optimizers[0].state_dict()["state"].items():
        kept |= {f"{place} {name}": value.clone() for name, value in state.items()}
    return kept


def _same(before: dict[str, Tensor], after: dict[str, Tensor]) -> bool:
    return before.keys() == after.keys() and all(torch.equal(value, after[name]) for name, value in before.items())


def _is_finite(trained: Trained) -> bool:
    return all(math.isfinite(value) for value in trained.figures.values())


def _broken_checkpoints(out: Path) -> list[str]:
    wrong = []
    for path in out.rglob("*.ckpt"):
        kept = torch.load(path, weights_only=True)["state_dict"]
        wrong += [f"{path.name} holds {name}" for name, values in kept.items() if not values.isfinite().all()]
    return wrong


def _machine(policy: Policy) -> Machine:
    return Machine("cpu", devices=1, progress=False, on_nonfinite=policy)


def _network() -> TokenSTN:
    """A small ResNet, for its BatchNorm."""
    torch.manual_seed(0)
    network = timm.create_model("test_resnet", num_classes=2)
    return TokenSTN(network, primitives=(), input_size=PREPARED.size, preprocessing=PREPARED)


def _table(folder: Path) -> ImageTable:
    """Two classes of twenty-four photos as files."""
    random_pixels = np.random.default_rng(0)
    for name in ("dark", "light"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(24):
            pixels = random_pixels.integers(0, 160, (24, 24, 3)) + (90 if name == "light" else 0)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number:02}.png")
    return split_table(open_images(folder), seed=0)
