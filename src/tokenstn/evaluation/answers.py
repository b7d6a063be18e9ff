"""What a model answered on every image under every element of a group, as compact tensors on the CPU.

E elements, element 0 the images as they come; N images; L labels where the data are multi-label. What was not labelled
(−1) has no right answer: it counts as wrong in ``correct`` and is NaN in ``nll`` and ``brier``; ``Answers.labelled``
says where to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.evaluation.classification import OPERATING_POINT, OrbitDiscrimination
from tokenstn.geometry import Group
from tokenstn.models.prediction import answer_entropy

SMALLEST_PROBABILITY = 1e-12  # a probability of exactly 0 for the right class costs 27.6 nats, not infinitely many
EXACT_LABELS = 62  # so many labels fit into the bits of a 64-bit number


@dataclass(frozen=True)
class Responses:
    """The answers of one answerer, the bare classifier or the rectified one.

    predicted ``(E, N)``: the class, or a number that stands for the set of labels. confidence ``(E, N)``: its
    probability, or the mean over the labels of that of the more probable side. entropy ``(E, N)``: of the answer, in
    nats. correct ``(E, N)``, or for each label at ½ ``(E, N, L)``. nll, brier ``(E, N)``: summed over the labels.
    upright ``(N, classes)``: probabilities for the images as they come. discrimination: over the orbit's labelled
    answers, None where no image is labelled.
    """

    predicted: Tensor
    confidence: Tensor
    entropy: Tensor
    correct: Tensor
    nll: Tensor
    brier: Tensor
    upright: Tensor
    discrimination: OrbitDiscrimination | None

    @property
    def right(self) -> Tensor:
        """How right each answer is, ``(E, N)`` float: 1 or 0, or the share of its labels."""
        return self.correct.float() if self.correct.ndim == 2 else self.correct.float().mean(-1)

    @property
    def all_right(self) -> Tensor:
        """Whether each answer is right, ``(E, N)`` bool; with several labels, whether all of them are."""
        return self.correct if self.correct.ndim == 2 else self.correct.all(-1)


@dataclass(frozen=True)
class FoundPoses:
    """What the rectifier believed.

    By primitive, as far as the method has it: value, the best one in the network's frame, ``(E, N)``, or ``(E, N, 2)``
    for a translation; entropy and spread ``(E, N)``. For all together: views ``(E, N)``, how many were looked at;
    disagreement ``(E, N)`` between their answers, in nats, None where the method does not say.
    """

    value: dict[str, Tensor]
    entropy: dict[str, Tensor]
    spread: dict[str, Tensor]
    views: Tensor
    disagreement: Tensor | None


@dataclass(frozen=True)
class Answers:
    """Everything that one pass over an orbit leaves behind; all statistics are made from it.

    labels ``(N,)`` or ``(N, L)``, −1 = unlabelled. rows ``(N,)``: in the table. groups: the group (patient, trap) of
    each image, None where there are none. first_shear ``(N,)``: what a group with a random first shear gave each image.
    zoom ``(N,)``: how many units of the network's frame one unit of the photo's is. stretch ``(N,)``: how much more so
    in height than in width, 1 unless photos are squashed. bad: (name, reason) of images that could not be read.
    ``rectified`` and ``poses`` are None for a bare classifier.
    """

    group: Group
    labels: Tensor
    rows: Tensor
    groups: tuple[str, ...] | None
    multi_label: bool
    first_shear: Tensor
    zoom: Tensor
    stretch: Tensor
    bad: tuple[tuple[str, str], ...]
    bare: Responses
    rectified: Responses | None
    poses: FoundPoses | None

    @property
    def labelled(self) -> Tensor:
        """Which images have a label, ``(N,)`` bool."""
        return is_labelled(self.labels)

    @property
    def clusters(self) -> Tensor:
        """Images that belong together have the same number, ``(N,)``: by group where there are groups."""
        return torch.arange(len(self.rows)) if self.groups is None else numbered(self.groups)

    @property
    def best(self) -> Responses:
        """The answers that a person gets: the rectified ones where there are any."""
        return self.bare if self.rectified is None else self.rectified


def numbered(names: Sequence[str]) -> Tensor:
    """A number for each name, the same for equal ones, in the order in which they first come, ``(N,)``.

    >>> numbered(["trap 7", "trap 2", "trap 7"])
    tensor([0, 1, 0])
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return torch.tensor([numbers[name] for name in names])


def is_labelled(labels: Tensor) -> Tensor:
    """``(N,)`` bool for labels ``(N,)`` or ``(N, L)``.

    >>> is_labelled(torch.tensor([3, -1]))
    tensor([ True, False])
    """
    return labels >= 0 if labels.ndim == 1 else (labels >= 0).all(1)


def judge(probabilities: Tensor, labels: Tensor, multi_label: bool) -> dict[str, Tensor]:
    """The tensors of ``Responses`` for one batch: ``probabilities (B, classes)``, ``labels (B,)`` or ``(B, L)``.

    >>> judged = judge(torch.tensor([[0.75, 0.25]]), torch.tensor([1]), multi_label=False)
    >>> judged["correct"].item(), round(judged["brier"].item(), 3), round(judged["nll"].item(), 3)
    (False, 1.125, 1.386)
    """
    probabilities = probabilities.float()
    known = is_labelled(labels)
    unknown = torch.where(known, 0.0, torch.nan)
    if multi_label:
        wanted = labels.clamp_min(0).to(probabilities)
        said = probabilities > OPERATING_POINT
        predicted, correct = label_set_id(said), (said == wanted.bool()) & known.unsqueeze(1)
        confidence = torch.maximum(probabilities, 1 - probabilities).mean(-1)
        given = torch.where(wanted.bool(), probabilities, 1 - probabilities)
        nll = -given.clamp_min(SMALLEST_PROBABILITY).log().sum(-1)
    else:
        confidence, predicted = probabilities.max(-1)
        correct = predicted == labels
        place = labels.clamp(0, probabilities.shape[1] - 1).unsqueeze(1)  # one that is no class is refused elsewhere
        given = probabilities.gather(1, place).squeeze(1)
        nll = -given.clamp_min(SMALLEST_PROBABILITY).log()
        wanted = torch.zeros_like(probabilities).scatter(1, place, 1.0)
        predicted = predicted.to(torch.int32)
    return {
        "predicted": predicted,
        "confidence": confidence,
        "entropy": answer_entropy(probabilities, multi_label),
        "correct": correct,
        "nll": nll + unknown,
        "brier": (probabilities - wanted).square().sum(-1) + unknown,
    }


def label_set_id(said: Tensor) -> Tensor:
    """One number for each set of labels ``(B, L)`` bool → ``(B,)`` int64; equal exactly where the sets are equal.

    Above 62 labels the numbers are random sums, which two sets share with probability 2⁻⁶³.

    >>> label_set_id(torch.tensor([[True, False, True], [False, False, False]]))
    tensor([5, 0])
    """
    labels = said.shape[1]
    if labels <= EXACT_LABELS:
        weights = 2 ** torch.arange(labels)
    else:
        weights = torch.randint(-(2**63), 2**63 - 1, (labels,), generator=torch.Generator().manual_seed(0))
    return (said * weights.to(said.device)).sum(-1)
