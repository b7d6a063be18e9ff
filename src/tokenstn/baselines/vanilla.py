"""The classifier alone, upright or augmented by how it is trained; on request averaged over a few nearby angles.

Part of what views give a rectifier is plain averaging over nearby poses. Local averaging gives the same to a classifier
without one: 4 angles evenly spread over ±10°, so that whatever is left of the difference is the pose. It is a control
of ours, no published method.
"""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor, nn

from tokenstn.baselines.base import CommonOptions, Rival
from tokenstn.baselines.belief import Belief
from tokenstn.geometry import Pose

LOCAL_VIEWS = 4


class Vanilla(Rival):
    """The bare classifier.

    Args:
        local_averaging: average over 4 views within ``reach`` of the image as it is.
        reach: the largest angle of these, in radians.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> Vanilla(classifier, local_averaging=True).eval()(torch.rand(1, 1, 8, 8)).views.weights
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    learns = False

    def __init__(
        self,
        classifier: nn.Module | str,
        *,
        local_averaging: bool = False,
        reach: float = math.radians(10),
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(classifier, **common)
        if not 0 < reach <= math.pi:
            raise ValueError(f"reach={reach}: an angle above 0 and at most π, in radians")
        self.local_averaging, self.reach = local_averaging, reach
        self.usual_views = LOCAL_VIEWS if local_averaging else 1

    @property
    def bare(self) -> bool:
        return not self.local_averaging

    def localize(self, images: Tensor) -> Belief:
        def nearby(n: int, *_) -> Tensor:
            n = n if self.local_averaging else 1
            angles = torch.linspace(-self.reach, self.reach, n) if n > 1 else torch.zeros(1)
            return Pose.of(rotation=angles.to(images.device)).matrix.expand(len(images), n, 3, 3)

        return Belief(nearby(1)[:, 0], nearby)
