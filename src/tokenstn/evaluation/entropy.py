"""Entropy by class: was the belief about the pose broad where rectification fixed, spoiled or left an answer?"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tokenstn.evaluation.flips import class_of_answers
from tokenstn.evaluation.results import ClassEntropy, EntropyGroup

KINDS = ("unchanged", "fixed", "broken")
DIGITS = 4  # of a sampled entropy: a thousand classes of samples go into metrics.json


def entropy_by_class(
    entropy: Tensor,
    bare_correct: Tensor,
    correct: Tensor,
    labels: Tensor | None,
    classes: int,
    sample: int = 200,
    seed: int = 0,
) -> tuple[ClassEntropy, ...]:
    """One primitive's entropy for each class: mean, standard deviation and count by what became of the answers.

    Args:
        entropy: ``(E, N)``, from 0 (certain) to 1 (uniform).
        bare_correct, correct: ``(E, N)``, or ``(E, N, L)`` for multi-label data, where class k is label k and every
            answer counts for each label.
        labels: ``(N,)`` true classes, None for multi-label data.
        sample: at most so many (entropy, what became of it) pairs of a class are kept, drawn evenly from all of them.

    >>> h, bare, now = torch.tensor([[0.1, 0.5]]), torch.tensor([[True, False]]), torch.tensor([[True, True]])
    >>> entropy_by_class(h, bare, now, torch.tensor([0, 0]), classes=1)[0].sample
    ((0.1, 'unchanged'), (0.5, 'fixed'))
    """
    of_class = class_of_answers(bare_correct, correct, labels, classes)
    if entropy.shape != correct.shape[:2]:
        raise ValueError(
            f"each answer has one entropy, (E, N) = {tuple(correct.shape[:2])}, got shape {tuple(entropy.shape)}"
        )
    bare, now = bare_correct.bool().cpu(), correct.bool().cpu()
    kind = torch.where(~bare & now, 1, 0) + torch.where(bare & ~now, 2, 0)
    values = entropy.detach().cpu().double().reshape(*entropy.shape, *[1] * (correct.ndim - 2)).expand(correct.shape)
    order = torch.argsort(of_class.reshape(-1), stable=True).numpy()
    ends = np.cumsum(np.bincount(of_class.reshape(-1).numpy(), minlength=classes))[:-1]
    return tuple(
        _of_class(of_values, of_kinds, sample, np.random.default_rng([seed, k]))
        for k, (of_values, of_kinds) in enumerate(
            zip(
                np.split(values.reshape(-1).numpy()[order], ends),
                np.split(kind.reshape(-1).numpy()[order], ends),
                strict=True,
            )
        )
    )


def _of_class(
    values: NDArray[np.float64], kinds: NDArray[np.int64], sample: int, generator: np.random.Generator
) -> ClassEntropy:
    groups = {name: _group(values[kinds == number]) for number, name in enumerate(KINDS)}
    few = len(values) <= sample
    chosen = np.arange(len(values)) if few else np.sort(generator.choice(len(values), sample, replace=False))
    pairs = tuple((round(float(values[i]), DIGITS), KINDS[kinds[i]]) for i in chosen)
    return ClassEntropy(**groups, sample=pairs)


def _group(values: NDArray[np.float64]) -> EntropyGroup:
    if not len(values):
        return EntropyGroup(None, None, 0)
    return EntropyGroup(float(values.mean()), float(values.std()), len(values))
