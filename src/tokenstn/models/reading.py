"""What the localizer of a new rectifier reads where nobody says: ``tokenstn train`` and ``tokenstn bench`` choose it.

Chosen on photos of EU-Moths that no test uses (``experiments/moths-localizer.yaml``): at the same cost, deeper layers
of a plain ViT on a smaller image tell the pose better than the first ones on a larger image, and a coarse grid of
tokens tells it as well as a fine one. Where that leaves the angle in doubt, four closer readings tell it about as well
as reading every image whole (``experiments/moths-closer.yaml``).
"""

from __future__ import annotations

from dataclasses import dataclass

from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from tokenstn.models.first_layer import patch_size

RULE = 2  # one more with every change of what is chosen here: a bench then judges its cells again
SAID = {"shared", "localization_size", "localization_tokens"}  # options that together leave nothing to choose
SMALL_IMAGE = 64  # pixels: less than the whole of an image of this size shows too little
FINE_GRID = 10  # tokens along a side, of which a share is still enough to tell a pose


@dataclass(frozen=True)
class Reading:
    """As ``TokenSTN`` takes them: layers, the share of the image's sides, tokens along the shorter side, and the share
    at which images in doubt are read again, None for the same.
    """

    shared: int
    localization_size: float
    localization_tokens: int
    closer_size: float | None = None


def usual_reading(classifier: nn.Module, size: tuple[int, int]) -> Reading:
    """For a classifier of images of a size ``(height, width)``.

    >>> import timm
    >>> usual_reading(timm.create_model("vit_small_patch16_224"), (224, 224))
    Reading(shared=4, localization_size=0.36, localization_tokens=5, closer_size=0.5)
    >>> usual_reading(timm.create_model("resnet18"), (224, 224))
    Reading(shared=2, localization_size=0.5, localization_tokens=5, closer_size=None)
    """
    if min(size) <= SMALL_IMAGE:
        return Reading(2, 1.0, 14)
    if isinstance(classifier, VisionTransformer | Eva):
        layers, patch = len(classifier.blocks), patch_size(classifier)[0]
        if min(size) >= FINE_GRID * patch:
            return Reading(max(1, layers // 3), 0.36, 5, 0.5)
    return Reading(2, 0.5, 5)
