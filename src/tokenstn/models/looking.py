"""Rectify images by their views, ask the classifier about each, and average: all at once, or in batches."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tokenstn.geometry import warp
from tokenstn.models.averaging import average
from tokenstn.models.prediction import answer_entropy
from tokenstn.posteriors import Views

FEW = 32  # rectified images that are always looked at together, however small the batch

# from rectified images (n, C, H, W) to probabilities (n, classes)
Answer = Callable[[Tensor], Tensor]


def look_at_all(images: Tensor, views: Views, answer: Answer, multi_label: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Over all views: mean probabilities ``(B, classes)``, mean entropy ``(B,)``; and view 0 ``(B, C, H, W)``.

    Without gradients it takes no more memory than one view of the same batch; otherwise, and in a compiled graph, all
    views go through the classifier at once.
    """
    batch, count = views.weights.shape
    together = count
    if not (torch.is_grad_enabled() or torch.compiler.is_compiling()):
        together = max(1, FEW // batch)
    first, answers = None, []
    for matrices in views.matrices.split(together, 1):
        rectified = warp(images, matrices, validate=False)
        first = rectified[:, 0] if first is None else first
        answers.append(answer(rectified.flatten(0, 1)).unflatten(0, matrices.shape[:2]))
    assert first is not None
    every = answers[0] if len(answers) == 1 else torch.cat(answers, 1)
    return *average(every.flatten(0, 1), views.weights, multi_label), first


def look_at_used(images: Tensor, views: Views, answer: Answer, multi_label: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The same, spending nothing on views of weight 0: the used ones are packed into batches of about B."""
    batch = len(images)
    view, row = views.weights.T.nonzero(as_tuple=True)  # sorted by view: the first B are everyone's first
    matrices, weights = views.matrices[row, view], views.weights[row, view]
    total, first = None, None
    for some in torch.arange(len(row), device=row.device).split(max(batch, FEW)):
        rectified = warp(images[row[some]], matrices[some], validate=False)
        first = rectified[:batch] if first is None else first
        answers = answer(rectified)
        with_doubt = torch.cat((answers, answer_entropy(answers, multi_label).unsqueeze(-1)), -1)
        part = weights[some].unsqueeze(-1) * with_doubt
        total = part.new_zeros(batch, part.shape[1]) if total is None else total
        total = total.index_add(0, row[some], part)
    assert total is not None and first is not None
    return total[:, :-1], total[:, -1], first
