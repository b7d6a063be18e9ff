"""Test-time augmentation: the predictions of the bare classifier, pooled over 4 random group elements.

Nothing is trained: the classifier keeps whatever it does not know about other poses, and on a full circle most of the
four views lie as badly as the image did, so on rotated digits pooling need not improve on the classifier alone.
Different from common practice, where flips and crops are pooled: the elements are those of the benchmark's own group,
drawn with replacement for each image, and probabilities are averaged, not logits.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from tokenstn.baselines.base import CommonOptions, Rival
from tokenstn.baselines.belief import Belief, Sampling
from tokenstn.geometry import Group, group, invert
from tokenstn.posteriors import RandomSource
from tokenstn.posteriors.base import random_uniform


class TestTimeAugmentation(Rival):
    """The classifier's answers on random members of each image's orbit.

    Args:
        elements: the group, by its name (order 16) or as a value; each image is moved by some of its elements.
        usual_views: how many. A call with ``views=1`` looks at the image as it is.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> TestTimeAugmentation(classifier).eval()(torch.rand(2, 1, 8, 8)).views.weights.shape
    torch.Size([2, 4])
    """

    __test__ = False  # pytest reads the name as a test
    learns = False

    def __init__(
        self,
        classifier: nn.Module | str,
        *,
        elements: str | Group = "rotoscale",
        usual_views: int = 4,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(classifier, **common)
        if usual_views < 1:
            raise ValueError(f"usual_views={usual_views}: at least 1")
        self.usual_views = usual_views
        self.elements = group(elements, 16) if isinstance(elements, str) else elements

    def localize(self, images: Tensor) -> Belief:
        # to apply a pose is to look from its inverse
        matrices = invert(self.elements.poses.matrix).float().to(images.device)
        upright = torch.eye(3, device=images.device).expand(len(images), 3, 3)

        def some(n: int, sampling: Sampling, noise: RandomSource) -> Tensor:
            if n == 1 and sampling == "probable":
                return upright.unsqueeze(1)
            drawn = random_uniform((len(images), n), matrices, noise)
            return matrices[(drawn * len(matrices)).long()]

        return Belief(upright, some)
