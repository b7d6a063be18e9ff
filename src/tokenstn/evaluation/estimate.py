"""How long an evaluation will take: one batch under a few elements, and the rule of three."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils.data import DataLoader

from tokenstn.evaluation.cost import synchronise
from tokenstn.evaluation.method import Method, Views
from tokenstn.evaluation.orbit import device_of
from tokenstn.evaluation.photos import PhotoOrbit, Photos
from tokenstn.geometry import Group


@torch.no_grad()
def estimate_seconds(
    model: Method,
    photos: DataLoader[Any],
    group: Group,
    *,
    views: Views = "auto",
    device: torch.device | str | None = None,
    elements: int = 2,
) -> float:
    """About how many seconds ``answer_orbit`` takes, from its first batch under ``elements`` of the group's elements.

    Reading is timed too. The statistics, controls and cost of an evaluation come on top: seconds to minutes.
    """
    assert isinstance(photos.dataset, Photos)
    preprocessing = photos.dataset.preprocessing
    model.eval()
    device = device_of(model) if device is None else torch.device(device)
    model.to(device)
    start = time.perf_counter()
    batch = next(iter(photos))
    reading = time.perf_counter() - start
    if len(batch["index"]) == 0:
        return reading * len(photos)
    orbit = PhotoOrbit(batch, group, preprocessing, device=device)
    # the first call is slow (memory, kernels), and element 0 needs no warp: the last ones are typical
    places = [len(group) - 1 - k % len(group) for k in range(elements + 1)]
    for number, k in enumerate(places):
        if number == 1:
            synchronise(device)
            start = time.perf_counter()
        images = orbit[k]
        model.classify(images, {}).probabilities.cpu()
        if not model.bare:
            model(images, views=views).probabilities.cpu()
    synchronise(device)
    one_element = (time.perf_counter() - start) / elements
    share = len(photos.dataset) / len(batch["index"])  # in batches like this one
    return share * (reading + len(group) * one_element)
