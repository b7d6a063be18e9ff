"""When one view is enough: how sure its answer has to be, found on images with labels.

``views="auto"`` stops at the first view where the odds of its answer are high enough (``AutoViews.sure``). How high
that is depends on the classifier: one that is too sure of itself has high odds everywhere, and gains from further views
even there. So they are the smallest odds at which the answers score nearly as well as at the best ones. The Brier score
is used, for it counts how probable an answer was said to be besides whether it was right, and no single one outweighs
all others.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tokenstn.data import ImageTable
from tokenstn.evaluation.answers import is_labelled, judge
from tokenstn.evaluation.orbit import device_of
from tokenstn.evaluation.photos import PhotoOrbit, load_photos
from tokenstn.geometry import Group
from tokenstn.models import AutoViews, TokenSTN
from tokenstn.models.prediction import odds_of
from tokenstn.system.processes import reading_processes

GIVEN_UP = 1e-3  # of the mean Brier score, from 0 to 2, for looking at fewer views
SUREST = 1e6  # odds above are taken for this: where the next answer is impossible, they are infinite
LOOKS = 1200  # answers that are looked at, about
LEAST = 20  # images that can tell anything


@dataclass(frozen=True)
class Enough:
    """What ``views="auto"`` is to mean for a model, and what that was found from.

    looked: answers on moved images. stopped: how many of them are given after one view. views: looked at for an answer,
    on average. brier: the mean score of the answers; at_length: without stopping.
    """

    auto: AutoViews
    looked: int
    stopped: int
    views: float
    brier: float
    at_length: float

    @property
    def sentence(self) -> str:
        """In words.

        >>> Enough(AutoViews(sure=6.25), looked=1200, stopped=900, views=1.84, brier=0.0721, at_length=0.083).sentence
        'one is enough where its answer is 6.2 times as probable as the next one: for 75 % of 1,200 moved images; 1.8 \
on average, Brier score 0.072, and 0.083 if it never were'
        """
        if self.auto.sure is None:
            return f"one is never enough, by {self.looked:,} moved images; {self.views:.1f} on average"
        return (
            f"one is enough where its answer is {self.auto.sure:.1f} times as probable as the next one: for "
            f"{self.stopped / self.looked:.0%} of {self.looked:,} moved images; {self.views:.1f} on average, Brier "
            f"score {self.brier:.3f}, and {self.at_length:.3f} if it never were"
        ).replace("%", " %")


@torch.no_grad()
def fit_enough(
    model: TokenSTN,
    table: ImageTable,
    rows: Tensor,
    group: Group,
    *,
    mask: bool = False,
    batch_size: int = 64,
    workers: int = 0,
    seed: int = 0,
) -> Enough | None:
    """How sure the first answer of a model has to be, from images that its classifier was not trained on.

    Args:
        rows: of those images, in the table; those without a label are left out. Some are taken where there are many,
            each at several poses where they are few.
        group: the poses to look at them in; mask: whether only the inscribed disc is shown there.
        seed: of what is taken.

    None where fewer than 20 images have a label, can be read and get an answer, for they would tell too little, and
    where none has a second view. ``model`` is put into evaluation mode and stays as it is otherwise: give it the
    result's ``auto``.
    """
    assert model.preprocessing is not None
    rows = rows[is_labelled(table.labels[rows])]
    draw = np.random.default_rng(seed)
    rows = rows[torch.from_numpy(draw.permutation(len(rows))[:LOOKS]).sort().values]
    poses = min(len(group), math.ceil(LOOKS / max(1, len(rows))))
    patient = copy.copy(model.eval())  # the same weights, asked in another way
    patient.auto = replace(model.auto, sure=None)
    found, device = [torch.empty(0, 4, dtype=torch.float64)], device_of(model)
    with reading_processes():
        for batch in load_photos(table, rows, model.preprocessing, batch_size, workers):
            if len(batch["index"]) == 0:
                continue
            orbit = PhotoOrbit(batch, group, model.preprocessing, device=device, seed=seed, mask=mask)
            for element in draw.permutation(len(group))[:poses].tolist():
                found.append(_first_and_all(patient, orbit[element], batch["label"].to(device)).cpu())
    answers = torch.cat(found)
    answers = answers[answers.isfinite().all(-1)]  # whoever judges them says where they are no numbers
    odds, first, every, views = answers.unbind(-1)
    if len(odds) < LEAST * poses or not bool((views > 1).any()):
        return None
    sure = least_odds(odds, first - every)
    stopped = torch.zeros_like(odds, dtype=torch.bool) if sure is None else odds >= sure
    return Enough(
        replace(model.auto, sure=sure),
        len(odds),
        int(stopped.sum()),
        torch.where(stopped, 1.0, views).mean().item(),
        torch.where(stopped, first, every).mean().item(),
        every.mean().item(),
    )


def least_odds(odds: Tensor, worse: Tensor, given_up: float = GIVEN_UP) -> float | None:
    """The smallest odds at which stopping is at most ``given_up`` worse than at the best ones; None to never stop.

    Args:
        odds: of the first answer, ``(n,)``.
        worse: by how much that is a worse answer than the one after further views, ``(n,)``.

    >>> odds = torch.tensor([90.0, 40.0, 7.0, 2.0])
    >>> least_odds(odds, torch.tensor([0.0, -0.1, 0.3, 0.4])), least_odds(odds, torch.zeros(4))
    (40.0, 2.0)
    """
    falling = odds.double().sort(descending=True)
    as_sure_as_the_next = torch.cat((falling.values[:-1] == falling.values[1:], torch.tensor([False])))
    score = torch.cat((worse.new_zeros(1), worse[falling.indices].cumsum(0))).double() / len(odds)
    score[1:][as_sure_as_the_next] = torch.inf  # it cannot be stopped at the one and not the other
    stopped = int((score <= score.min() + given_up).nonzero()[-1])
    return max(1.0, falling.values[stopped - 1].item()) if stopped else None


def _first_and_all(patient: TokenSTN, images: Tensor, labels: Tensor) -> Tensor:
    """For each image: the odds of its first answer, its Brier score, that with all views, and how many these are.

    From ``(B, C, h, w)`` and ``(B,)`` or ``(B, L)`` to ``(B, 4)`` float64, on the device; ``patient`` never stops.
    """
    belief = patient.believe(images, "auto")
    first, every = (patient.classify(images, belief, views) for views in (1, "auto"))
    assert every.views is not None
    odds = odds_of(first.probabilities, patient.multi_label).clamp(max=SUREST)
    scores = (judge(answer.probabilities, labels, patient.multi_label)["brier"] for answer in (first, every))
    return torch.stack((odds, *scores, (every.views.weights > 0).sum(1)), -1).double()
