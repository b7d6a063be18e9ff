"""Are the images of a data set upright? The bare classifier knows: it does best on images as they come."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LEAST_DROP = 0.1  # of the value for unturned images; upright sets lose 30 to 50 %
LEAST_ERRORS = 3.0  # standard errors that the drop must measure


@dataclass(frozen=True)
class UprightVerdict:
    """Whether the data are upright, how much the classifier loses on turned images, and a sentence for people.

    drop: value for unturned images minus value for turned ones, both from 0 to 1; standard_error: of the drop.

    >>> is_upright(torch.tensor([0.9, 0.3, 0.3, 0.3]), counts=500).upright
    True
    """

    upright: bool
    drop: float
    standard_error: float
    sentence: str


def is_upright(value_by_angle: Tensor, counts: Tensor | int, labelled: bool = True) -> UprightVerdict:
    """Decide from the bare classifier's accuracy or confidence by angle; flat means that the data are not upright.

    Args:
        value_by_angle: accuracy, or mean probability of the predicted class, for images turned by 2πk / n, ``(n,)``
            with n ≥ 4 and entry 0 the images as they come. From images that the classifier was not trained on: those it
            knows by heart are best as they come, however they lie.
        counts: how many images each value is a mean over, a number or ``(n,)``.
        labelled: the values are accuracies, not confidences; for the sentence.

    The data are upright where unturned images do better than turned ones by a tenth of their value and by three
    standard errors. Two controls: turned is the mean over all other angles or over the quarter turns, whichever is
    higher, because only those are free of the blur of resampling; and the standard error takes the angles of one image
    as one observation, with the binomial variance, which is the largest that numbers from 0 to 1 can have.

    >>> is_upright(torch.tensor([0.9, 0.5, 0.4, 0.5]), counts=200).upright
    True
    >>> is_upright(torch.tensor([0.72, 0.7, 0.7, 0.71]), counts=200).upright
    False
    """
    values = value_by_angle.double().flatten()
    if len(values) < 4 or not bool(((values >= 0) & (values <= 1)).all()):
        raise ValueError(f"a value from 0 to 1 is needed for at least 4 angles, got {value_by_angle.tolist()}")
    number = torch.as_tensor(counts).double().expand(len(values))
    if not bool((number >= 1).all()):
        raise ValueError(f"every angle needs at least one image, got counts {number.tolist()}")
    turned = values[1:].mean().item()
    if len(values) % 4 == 0:
        turned = max(turned, values[len(values) // 4 :: len(values) // 4].mean().item())
    unturned = values[0].item()
    drop = unturned - turned
    error = math.sqrt(_variance(unturned, number[0].item()) + _variance(turned, number[1:].mean().item()))
    large, certain = drop >= LEAST_DROP * unturned, drop >= LEAST_ERRORS * error
    reaches = "is right on" if labelled else "has a mean confidence of"
    found = f"the classifier {reaches} {unturned:.1%} as they come and {turned:.1%} turned"
    if large and certain:
        why = f"they come upright ({drop / error:.1f} standard errors)"
    elif large:
        why = f"with {int(number[0])} images this may be chance, so they count as not upright; "
        why += "if they do stand upright, say so: --upright yes"
    else:
        why = "no orientation stands out, so they count as not upright (or the classifier does not mind a turn)"
    return UprightVerdict(large and certain, drop, error, f"{found}: {why}")


def _variance(share: float, count: float) -> float:
    """Of a mean of numbers in [0, 1]; one success and one failure are added, so that a share of 1 is not certain."""
    share = (share * count + 1) / (count + 2)
    return share * (1 - share) / count
