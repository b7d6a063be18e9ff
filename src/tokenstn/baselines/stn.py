"""The spatial transformer: a ConvNet on pixels regresses the six entries of M, starting at the identity.

After "Spatial Transformer Networks" (Jaderberg, Simonyan, Zisserman and Kavukcuoglu, 2015), equation 1. Different from
the publication: the shared ConvNet of ``pixels``, reflection padding, and the isotropic frame, in which a rotation of a
non-square image is a rotation.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from tokenstn.baselines.base import CommonOptions, Rival
from tokenstn.baselines.belief import Belief
from tokenstn.baselines.matrices import IDENTITY_ENTRIES, affine_matrix
from tokenstn.baselines.pixels import PixelLocalizer
from tokenstn.geometry import as_primitives

AFFINE = ("rotation", "scale", "shear", "translation")  # what a matrix near the identity can do


class SpatialTransformer(Rival):
    """M itself, unbounded; the reported pose is its decomposition.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> SpatialTransformer(classifier).eval()(torch.rand(2, 1, 12, 12)).pose.scale.tolist()
    [1.0, 1.0]
    """

    def __init__(self, classifier: nn.Module | str, **common: Unpack[CommonOptions]) -> None:
        super().__init__(classifier, **common)
        self.primitives = as_primitives(AFFINE)
        start = torch.tensor(IDENTITY_ENTRIES)
        self.localizer = self.beside_classifier(PixelLocalizer(self.channels, {"matrix": start}))

    def localize(self, images: Tensor) -> Belief:
        assert self.localizer is not None
        return Belief.certain(affine_matrix(self.localizer(images)["matrix"]))
