"""The decomposed spatial transformer: one unbounded, deterministic head for each primitive θ, s, h, t.

The ablation of "Geometrically Constrained and Token-Based Probabilistic Spatial Transformers" between STN and the full
method: M = T(t) · R(θ) · H(h) · S(s) instead of six entries, still from pixels and without a posterior. Different from
there: the shared ConvNet of ``pixels``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Unpack

from torch import Tensor, nn

from tokenstn.baselines.base import CommonOptions, Rival
from tokenstn.baselines.belief import Belief
from tokenstn.baselines.free import free_primitives
from tokenstn.baselines.pixels import PixelLocalizer
from tokenstn.baselines.stn import AFFINE
from tokenstn.geometry import Primitive
from tokenstn.posteriors import Point, Posterior, best_pose


class HeadSTN(Rival):
    """A ConvNet with a head for each primitive.

    Args:
        primitives: any but reflection; their bounds do not bound anything here.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> HeadSTN(classifier).eval()(torch.rand(2, 1, 12, 12)).pose.rotation.tolist()        # a fresh one
    [0.0, 0.0]
    """

    family: ClassVar[type[Posterior]] = Point

    def __init__(
        self,
        classifier: nn.Module | str,
        *,
        primitives: Iterable[str | Primitive] = AFFINE,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(classifier, **common)
        self.primitives = free_primitives(primitives)
        if not self.primitives:
            raise ValueError("one head for each primitive: name at least one of rotation, scale, shear, translation")
        initial = {primitive.name: self.family.initial(primitive) for primitive in self.primitives}
        self.localizer = self.beside_classifier(PixelLocalizer(self.channels, initial))

    def localize(self, images: Tensor) -> Belief:
        return Belief.certain(best_pose(self.posteriors(images)).matrix)

    def posteriors(self, images: Tensor) -> dict[str, Posterior]:
        """What the heads say about each primitive, for images ``(B, C, H, W)``."""
        assert self.localizer is not None
        raw = self.localizer(images)
        return {primitive.name: self.family(primitive, raw[primitive.name]) for primitive in self.primitives}
