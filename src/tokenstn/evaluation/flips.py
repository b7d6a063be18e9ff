"""Flips: which answers of the bare classifier rectification made right, and which it spoiled."""

from __future__ import annotations

import torch
from torch import Tensor

from tokenstn.evaluation.results import ClassFlips, Flips


def flips(bare_correct: Tensor, correct: Tensor, labels: Tensor | None, classes: int) -> Flips:
    """Count fixed among base-wrong and broken among base-right answers, overall and for each true class.

    Args:
        bare_correct, correct: ``(E, N)`` bool, of N images under E elements, without and with rectification. For
            multi-label data ``(E, N, L)``, an answer for each label: class k is then label k, with it and without it.
        labels: ``(N,)`` true classes; not needed, and not looked at, for multi-label data.
        classes: how many there are; a class without images has counts of 0.

    >>> bare, rectified = torch.tensor([[True, False], [False, True]]), torch.tensor([[True, True], [True, False]])
    >>> flips(bare, rectified, torch.tensor([0, 1]), classes=2).by_class[1]
    ClassFlips(fixed=1, base_wrong=1, broken=1, base_right=1)
    """
    of_class = class_of_answers(bare_correct, correct, labels, classes)
    bare, now = bare_correct.bool().cpu(), correct.bool().cpu()
    kinds = (~bare & now, ~bare, bare & ~now, bare)
    counts = torch.stack([torch.bincount(of_class[kind], minlength=classes) for kind in kinds], 1)
    return Flips(
        overall=ClassFlips(*(int(n) for n in counts.sum(0))),
        by_class=tuple(ClassFlips(*row) for row in counts.tolist()),
    )


def class_of_answers(bare_correct: Tensor, correct: Tensor, labels: Tensor | None, classes: int) -> Tensor:
    """The true class of each answer, of the shape of ``correct``, ``(E, N)`` or ``(E, N, L)``; see :func:`flips`."""
    if bare_correct.shape != correct.shape or correct.ndim not in (2, 3):
        raise ValueError(
            "flips compare the same answers with and without rectification, (E, N) or (E, N, labels) both, got shapes "
            f"{tuple(bare_correct.shape)} and {tuple(correct.shape)}"
        )
    if correct.ndim == 3:
        if correct.shape[2] != classes:
            raise ValueError(f"answers for {correct.shape[2]} labels do not match a list of {classes} labels")
        return torch.arange(classes).expand(correct.shape)
    if labels is None or labels.shape != correct.shape[1:]:
        given = "none" if labels is None else f"labels of shape {tuple(labels.shape)}"
        raise ValueError(f"{correct.shape[1]} images need as many labels, (N,), got {given}")
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise ValueError(
            f"labels from {int(labels.min())} to {int(labels.max())} do not match a list of {classes} classes, "
            f"which are numbered from 0 to {classes - 1}"
        )
    return labels.cpu().long().expand(correct.shape)
