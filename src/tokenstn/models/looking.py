"""Rectify images by their views, ask the classifier about each, and average: all at once, or in batches."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tokenstn.geometry import warp
from tokenstn.geometry.warp import Mode
from tokenstn.models.averaging import average, disagreement_of
from tokenstn.models.prediction import answer_entropy, odds_of
from tokenstn.posteriors import Views

ROOM = 1.25  # by how much further views may exceed a batch before they are split in two
FEW = 32  # rectified images that are always looked at together, however small the batch

# from rectified images (n, C, H, W) to probabilities (n, classes)
Answer = Callable[[Tensor], Tensor]


def look_at_all(
    images: Tensor, views: Views, answer: Answer, multi_label: bool, first: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Over all views: mean probabilities ``(B, classes)``, their disagreement ``(B,)``; and view 0 ``(B, C, H, W)``.

    Without gradients it takes no more memory than one view of the same batch; otherwise, and in a compiled graph, all
    views go through the classifier at once. ``first``: view 0, where it is known.
    """
    batch, count = views.weights.shape
    if count == 1 and first is not None:
        return *average(answer(first), views.weights, multi_label), first
    together = count
    if not (torch.is_grad_enabled() or torch.compiler.is_compiling()):
        together = max(1, FEW // batch)
    answers = []
    for matrices in views.matrices.split(together, 1):
        rectified = warp(images, matrices, validate=False)
        first = rectified[:, 0] if first is None else first
        answers.append(answer(rectified.flatten(0, 1)).unflatten(0, matrices.shape[:2]))
    assert first is not None
    every = answers[0] if len(answers) == 1 else torch.cat(answers, 1)
    return *average(every.flatten(0, 1), views.weights, multi_label), first


def look_at_used(
    images: Tensor,
    views: Views,
    answer: Answer,
    multi_label: bool,
    sure: float | None = None,
    first: Tensor | None = None,
    further: Mode = "bilinear",
) -> tuple[Tensor, Tensor, Tensor, Views]:
    """The same, spending nothing on views that are not used; also gives the views with the weights that were used.

    Not used are views of weight 0, and all but the first of an image where the odds of the first answer are at least
    ``sure``. The others are packed into as few batches of about B as there can be, all of one size.
    ``further``: how the pixels of those others are interpolated.
    """
    batch = len(images)
    first = warp(images, views.matrices[:, 0], validate=False) if first is None else first
    answers, weights = answer(first), views.weights
    if sure is not None:
        # not where the belief is no number: what was looked at there may be any pixel, and its answer be sure
        enough = (odds_of(answers, multi_label) >= sure).unsqueeze(1) & weights[:, :1].isfinite()
        weights = torch.cat((weights[:, :1].masked_fill(enough, 1.0), weights[:, 1:].masked_fill(enough, 0.0)), 1)
    total = weights[:, :1] * _with_doubt(answers, multi_label)
    view, row = weights[:, 1:].T.nonzero(as_tuple=True)
    matrices, shares = views.matrices[row, view + 1], weights[row, view + 1].unsqueeze(-1)
    together = math.ceil(len(row) / (ROOM * max(batch, FEW)))
    for some in torch.arange(len(row), device=row.device).tensor_split(together) if len(row) else ():
        answers = answer(warp(images[row[some]], matrices[some], mode=further, validate=False))
        total = total.index_add(0, row[some], shares[some] * _with_doubt(answers, multi_label))
    mean, doubt = total[:, :-1], total[:, -1]
    disagreement = disagreement_of(mean, doubt, multi_label)
    return mean, disagreement, first, Views(views.matrices, weights)


def _with_doubt(answers: Tensor, multi_label: bool) -> Tensor:
    """Answers ``(n, classes)`` and their entropies, side by side."""
    return torch.cat((answers, answer_entropy(answers, multi_label).unsqueeze(-1)), -1)
