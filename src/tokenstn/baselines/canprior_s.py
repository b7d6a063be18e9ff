"""CanPrior (S): a steerable network says a continuous angle, and the image is turned back by it.

After Mondal et al. (2023), see ``canprior``. The angle is the phase of an order-1 response of circular harmonics.
Prior: the mean squared difference between the rotation matrix and the identity on upright data, which is 1 − cos θ.

There is no start at the identity: an equivariant network cannot give one angle to every image, and a response of zero,
which has no angle, has no gradient either. A fresh one turns every image by some angle of its own.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from tokenstn.baselines.base import CommonOptions
from tokenstn.baselines.belief import Belief
from tokenstn.baselines.canprior import CanPrior
from tokenstn.baselines.circular_harmonics import HarmonicNetwork
from tokenstn.baselines.matrices import turn_matrix

SMALLEST = 1e-8  # a response below this has no direction


class CanPriorS(CanPrior):
    """A canonicaliser over all rotations.

    Args:
        fields: width of the network, for each order.
        size, prior_weight: see ``CanPrior``.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> CanPriorS(classifier, fields=4).eval()(torch.rand(2, 1, 16, 16)).pose.rotation.shape
    torch.Size([2])
    """

    def __init__(
        self,
        classifier: nn.Module | str,
        *,
        fields: int = 24,
        size: int = 64,
        prior_weight: float = 100.0,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(classifier, size=size, prior_weight=prior_weight, **common)
        self.localizer = self.beside_classifier(HarmonicNetwork(self.channels, fields))

    def localize(self, images: Tensor) -> Belief:
        return Belief.certain(turn_matrix(direction(self.response(images))))

    def prior(self, response: Tensor) -> Tensor:
        return (1 - direction(response)[:, 0]).mean()


def direction(response: Tensor) -> Tensor:
    """(cos θ, sin θ) of complex numbers ``(B, 2)``; the identity where there is none, as in an empty image.

    >>> direction(torch.tensor([[0.0, 2.0], [0.0, 0.0]]))
    tensor([[0., 1.],
            [1., 0.]])
    """
    length = torch.sqrt(response.square().sum(-1, keepdim=True).clamp_min(SMALLEST**2))
    return torch.where(length > SMALLEST, response / length, response.new_tensor([1.0, 0.0]))
