"""CanPrior (G): a group convolutional network picks one of n rotations, and the image is turned back by it.

After Mondal et al. (2023), see ``canprior``. argmax over the n numbers, straight through: forward the chosen angle's
cosine and sine, backward those of the softmax. Prior: cross-entropy to the identity on upright data. A fresh network
has no preference and chooses the identity; whatever it learns is then equivariant.
"""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tokenstn.baselines.base import CommonOptions
from tokenstn.baselines.belief import Belief
from tokenstn.baselines.canprior import CanPrior
from tokenstn.baselines.group_convolution import GroupNetwork
from tokenstn.baselines.matrices import turn_matrix


class CanPriorG(CanPrior):
    """A canonicaliser over the rotations 2πk / n.

    Args:
        order: n, a multiple of four.
        fields: width of the network, for each orientation.
        size, prior_weight: see ``CanPrior``.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> CanPriorG(classifier, fields=4).eval()(torch.rand(2, 1, 16, 16)).pose.rotation.shape
    torch.Size([2])
    """

    def __init__(
        self,
        classifier: nn.Module | str,
        *,
        order: int = 8,
        fields: int = 16,
        size: int = 64,
        prior_weight: float = 100.0,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(classifier, size=size, prior_weight=prior_weight, **common)
        if order < 4 or order % 4:
            raise ValueError(f"order={order}: a multiple of four, so that quarter turns are among the rotations")
        self.localizer = self.beside_classifier(GroupNetwork(self.channels, order, fields))

    def localize(self, images: Tensor) -> Belief:
        soft = self.response(images).softmax(-1)
        hard = F.one_hot(soft.argmax(-1), soft.shape[-1]).to(soft)
        chosen = hard + soft - soft.detach()
        angles = torch.arange(soft.shape[-1], device=soft.device) * (2 * math.pi / soft.shape[-1])
        directions = torch.stack((angles.cos(), angles.sin()), -1)
        return Belief.certain(turn_matrix((chosen.unsqueeze(-1) * directions).sum(1)))

    def prior(self, response: Tensor) -> Tensor:
        identity = torch.zeros(len(response), dtype=torch.long, device=response.device)
        return F.cross_entropy(response, identity)
