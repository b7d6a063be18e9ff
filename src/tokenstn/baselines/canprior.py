"""What the two canonicalisers with a prior share: what they read, and the prior term of the loss.

After "Equivariant Adaptation of Large Pretrained Models" (Mondal, Panigrahi, Kaba, Rajeswar and Ravanbakhsh, 2023).
An equivariant network says by how much an image is turned, and the image is turned back. Equivariance alone leaves open
which orientation counts as upright; a prior term (weight 100) asks for the identity on data that are upright.
Rotation only. Different from the publication: small networks of our own on the inscribed disc of the image, at 64
pixels at most, since nothing outside of the disc turns with the object.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Unpack

from torch import Tensor, nn

from tokenstn.baselines.base import CommonOptions, Rival
from tokenstn.baselines.belief import Belief
from tokenstn.geometry import Rotation, hide_corners
from tokenstn.models.backbone import resize

MULTIPLE = 8  # three halvings that keep the map even, so that quarter turns stay exact


class CanPrior(Rival):
    """A canonicaliser.

    Args:
        size: at most so many pixels along each side are read.
        prior_weight: of the prior; without upright images in ``losses`` it is left out.
    """

    def __init__(
        self,
        classifier: nn.Module | str,
        *,
        size: int = 64,
        prior_weight: float = 100.0,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(classifier, **common)
        if size < MULTIPLE or prior_weight < 0:
            raise ValueError(f"size={size}, prior_weight={prior_weight}: at least {MULTIPLE} pixels, and not below 0")
        self.size, self.prior_weight = size, prior_weight
        self.primitives = (Rotation(),)

    def response(self, images: Tensor) -> Tensor:
        """The equivariant network's answer for images ``(B, C, H, W)``; its last axis turns with the image."""
        assert self.localizer is not None
        side = min(self.size, *images.shape[-2:])
        side = max(MULTIPLE, MULTIPLE * round(side / MULTIPLE))
        return self.localizer(hide_corners(resize(images, (side, side))))

    @abstractmethod
    def prior(self, response: Tensor) -> Tensor:
        """How far the answers for upright images are from the identity: a scalar."""

    def regularisers(self, belief: Belief, upright: Tensor | None) -> dict[str, Tensor]:
        if upright is None or self.prior_weight == 0:
            return {}
        return {"prior": self.prior_weight * self.prior(self.response(upright))}
