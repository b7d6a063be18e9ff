"""The classifier of a model, without the rectifier in front of it."""

from __future__ import annotations

from tokenstn.models.tokenstn import TokenSTN


def without_rectifier(model: TokenSTN) -> TokenSTN:
    """The classifier of a model alone, prepared and named as it is there."""
    return TokenSTN(
        model.classifier,
        primitives=(),
        input_size=model.backbone.input_size,
        multi_label=model.multi_label,
        preprocessing=model.preprocessing,
        classes=model.classes,
    ).eval()
