"""The default that needs no download: scikit-learn's 1,797 handwritten digits, shaped like MNIST."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from tokenstn.data.table import ImageTable


def read_digits() -> ImageTable:
    """White digits on black, ``(1797, 1, 28, 28)``: 8 × 8 pixels enlarged bicubically to 20, and 4 of margin.

    >>> read_digits().items.shape
    torch.Size([1797, 1, 28, 28])
    """
    from sklearn.datasets import load_digits

    bundle = load_digits()
    ink = torch.from_numpy(bundle.images).unsqueeze(1) * (255 / 16)  # pyright: ignore[reportAttributeAccessIssue]
    ink = F.interpolate(ink, size=(20, 20), mode="bicubic", align_corners=False)
    images = F.pad(ink.round().clamp(0, 255).to(torch.uint8), (4, 4, 4, 4))
    labels = torch.from_numpy(bundle.target).long()  # pyright: ignore[reportAttributeAccessIssue]
    return ImageTable("digits", images, labels, tuple("0123456789"), channels=1, upright=True)
