"""Rows against the reference on the same images: paired image by image, over all seeds, clustered by image.

Copies of an image succeed and fail together, and so do they for all seeds: whole images (or groups of them, where the
data have groups) are what the interval counts. It says how sure the difference is for these trained models on other
images; how much it depends on the training is what ``by_seed`` shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from tokenstn.benchmark.scores import file_name
from tokenstn.evaluation.answers_file import KeptAnswers, load_answers
from tokenstn.evaluation.bench_results import UPRIGHT, Comparison
from tokenstn.evaluation.intervals import paired_difference


def answers_of(folder: Path, orbit: str) -> KeptAnswers | None:
    """The kept answers of a cell over an orbit."""
    return load_answers(folder / "orbits" / file_name(orbit))


def right_of(kept: KeptAnswers) -> torch.Tensor:
    """How right the answers that a person gets are, ``(E, n)`` over the labelled images."""
    given = kept.bare if kept.rectified is None else kept.rectified
    return given.right[:, kept.labelled]


def compare_rows(
    row: str,
    reference: str,
    data: str,
    orbit: str,
    ours: Mapping[int, KeptAnswers],
    theirs: Mapping[int, KeptAnswers],
    upright: bool = False,
) -> Comparison | None:
    """The mean difference over the seeds that both have, row minus reference; None where they have none in common.

    Args:
        ours, theirs: kept answers by seed.
        upright: compare on the images as they come, element 0, alone.
    """
    seeds = [seed for seed in ours if seed in theirs]
    if not seeds:
        return None
    elements = 1 if upright else None
    a = torch.cat([right_of(ours[seed])[:elements] for seed in seeds])
    b = torch.cat([right_of(theirs[seed])[:elements] for seed in seeds])
    first = ours[seeds[0]]
    if a.shape != b.shape:
        return None
    found = paired_difference(a, b, first.clusters[first.labelled])
    each = (a - b).reshape(len(seeds), -1).mean(1).tolist()
    apart = found.low > 0 or found.high < 0
    return Comparison(row, reference, data, UPRIGHT if upright else orbit, found, tuple(each), apart)
