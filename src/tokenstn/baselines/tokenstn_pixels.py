"""An ablation: TokenSTN with everything but its tokens. The ConvNet that the rivals share reads the pixels instead.

Primitives, posteriors, views and training are TokenSTN's own, so the difference between the two is what the localizer
reads. The ConvNet sees the image at full size, and nothing of the classifier is shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any, NoReturn, Unpack

import torch
from torch import Tensor, nn

from tokenstn.baselines.base import CommonOptions
from tokenstn.baselines.pixels import PixelLocalizer
from tokenstn.geometry import Primitive, as_primitives
from tokenstn.models.call_settings import AutoViews
from tokenstn.models.tokenstn import DEFAULT_PRIMITIVES, TokenSTN
from tokenstn.posteriors import family_of


class TokenSTNPixels(TokenSTN):
    """TokenSTN's posteriors from pixels.

    Args:
        primitives, posterior, auto: as in ``TokenSTN``.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> TokenSTNPixels(classifier, ("rotation",)).eval()(torch.rand(2, 1, 16, 16), views=1).pose.rotation.tolist()
    [0.0, 0.0]
    """

    def __init__(
        self,
        classifier: nn.Module | str,
        primitives: Iterable[str | Primitive] = DEFAULT_PRIMITIVES,
        posterior: str = "circular",
        auto: AutoViews = AutoViews(),
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(classifier, (), posterior, auto=auto, **common)  # no prefix: it would not be read
        self.primitives = as_primitives(primitives)
        self._families = {primitive: family_of(posterior, primitive) for primitive in self.primitives}
        channels = self.backbone.channels or (3 if self.preprocessing is None else len(self.preprocessing.mean))
        initial = {primitive.name: family.initial(primitive) for primitive, family in self._families.items()}
        device = next(self.classifier.parameters(), torch.zeros(())).device
        self.localizer = PixelLocalizer(channels, initial).to(device)  # pyright: ignore[reportAttributeAccessIssue]

    def heads(self, images: Tensor, closer: bool = False) -> dict[str, Tensor]:
        assert self.localizer is not None
        return self.localizer(images)

    def save_pretrained(self, save_directory: str | PathLike[str], **_: Any) -> NoReturn:
        raise ValueError(f"tokenstn-pixels is an ablation, no model folder: nothing was written to {save_directory}")
