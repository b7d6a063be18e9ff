"""How long a run will take, from a few steps of it that change nothing."""

from __future__ import annotations

import time

import torch

from tokenstn.data import ImageTable
from tokenstn.models import Preprocessing
from tokenstn.training.classifier_training import ClassifierTraining
from tokenstn.training.held import can_be_held
from tokenstn.training.loading import load, prepared
from tokenstn.training.recipes import Recipe
from tokenstn.training.rectifier_training import RectifierTraining

STEPS = 3
VALIDATION = 1 / 3  # of a training step's time: forward passes alone


def estimate_seconds(
    module: ClassifierTraining | RectifierTraining, table: ImageTable, recipe: Recipe, device: torch.device
) -> float:
    """Seconds that all epochs will take on one device: a batch is read, and its gradients are computed and thrown away.

    The module is in evaluation mode meanwhile, so that no running statistic and no random number is spent.
    """
    preprocessing: Preprocessing = module.preprocessing
    start = time.perf_counter()
    with torch.random.fork_rng(devices=[]):  # a loader draws a seed for its workers
        # an image that cannot be read is the training's to refuse, which knows whether it may be left out
        batch = next(iter(load(table, "val", preprocessing, recipe.batch_size, on_bad="skip")))
    reading = time.perf_counter() - start
    module.eval().to(device)
    batch = module.transfer_batch_to_device(batch, device, 0)
    images = module.images(batch)
    if len(images) == 0:
        return 0.0
    ways: list[dict[str, bool]] = [{}]
    if isinstance(module, RectifierTraining) and module.model.reads_closer:
        ways.append({"closer": True})  # every other step
    quickest = []
    for how in ways:
        times = []
        for _ in range(STEPS):
            start = time.perf_counter()
            module.loss(images, batch, **how).backward()
            module.zero_grad(set_to_none=True)
            if device.type == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        quickest.append(min(times))
    step = sum(quickest) / len(quickest)
    training, validation = len(table.split("train")), len(table.split("val"))
    computing = recipe.epochs * step / len(images) * (training + VALIDATION * validation)
    readings = 1 if can_be_held(prepared(table, "train", preprocessing)) else recipe.epochs
    return computing + readings * reading / len(images) * (training + validation)
