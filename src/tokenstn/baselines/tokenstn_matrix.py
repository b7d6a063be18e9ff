"""An ablation: TokenSTN's localizer without the decomposition. The shared tokens regress the six entries of M.

What is left is a spatial transformer on tokens: no primitive, no bound, no posterior, so no pose to be supervised
either; it learns from the classification alone, as ``stn`` does from pixels.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from tokenstn.baselines.base import CommonOptions, Rival
from tokenstn.baselines.belief import Belief
from tokenstn.baselines.matrices import IDENTITY_ENTRIES, affine_matrix
from tokenstn.baselines.stn import AFFINE
from tokenstn.geometry import as_primitives
from tokenstn.models.backbone import Backbone, LocalizationSize, resize
from tokenstn.models.localizer import Localizer


class TokenSTNMatrix(Rival):
    """M itself, unbounded, from the tokens of the classifier's first layers.

    Args:
        shared, localization_size: as in ``TokenSTN``.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> TokenSTNMatrix(classifier, shared="0").eval()(torch.rand(2, 1, 16, 16)).pose.scale.tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        classifier: nn.Module | str,
        *,
        shared: int | str = 2,
        localization_size: LocalizationSize = None,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(classifier, **common)
        self.primitives = as_primitives(AFFINE)
        self.localization_size = localization_size
        self.backbone = Backbone(self.classifier, shared, common.get("input_size"), common.get("preprocessing"))
        start = {"matrix": torch.tensor(IDENTITY_ENTRIES)}
        self.localizer = self.beside_classifier(Localizer(self.backbone.token_width, start))

    def localize(self, images: Tensor) -> Belief:
        assert self.localizer is not None
        height, width = images.shape[-2:]
        images = resize(images, self.backbone.reading_size(height, width, self.localization_size))
        return Belief.certain(affine_matrix(self.localizer(self.backbone.tokens(images))["matrix"]))
