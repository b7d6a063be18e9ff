"""The ConvNet on pixels that STN, Head-STN, P-STN, Polar and Diffeo-STN share, so that they differ in nothing else.

Four 3×3 convolutions with BatchNorm and ReLU, each followed by a 2×2 maximum as long as the map is large enough, an
adaptive pooling to 4×4 (a global one would lose where things are), a hidden layer, and one linear head for each
quantity, whose weights start at zero and whose bias at the identity. 0.6 M parameters, about as many as TokenSTN's
localizer. Every publication has a ConvNet of its own; none of them is this one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTHS = (32, 64, 96, 128)  # channels of the convolutions
FEATURES = 192  # of the hidden layer
GRID = 4  # cells along each side after the adaptive pooling


class PixelLocalizer(nn.Module):
    """Images ``(B, C, H, W)`` → ``{name: (B, outputs)}`` in fp32.

    Args:
        channels: C.
        initial: for each head the numbers that a fresh network puts out, ``(outputs,)``.
        wrap: the first spatial axis is an angle: convolutions go around it.
        context: how many numbers beside the images the heads get to see.

    >>> localizer = PixelLocalizer(1, {"rotation": torch.zeros(1)})
    >>> localizer(torch.rand(2, 1, 28, 28))["rotation"].shape
    torch.Size([2, 1])
    """

    def __init__(self, channels: int, initial: Mapping[str, Tensor], wrap: bool = False, context: int = 0) -> None:
        super().__init__()
        pairs = zip((channels, *WIDTHS[:-1]), WIDTHS, strict=True)
        self.layers = nn.ModuleList(ConvLayer(before, after, wrap) for before, after in pairs)
        self.hidden = nn.Linear(WIDTHS[-1] * GRID**2, FEATURES)
        self.heads = nn.ModuleDict({name: _head(FEATURES + context, start) for name, start in initial.items()})

    def forward(self, images: Tensor, context: Tensor | None = None) -> dict[str, Tensor]:
        """``context (B, n)``: the numbers beside the images."""
        found = images.to(self.hidden.weight.dtype)
        for layer in self.layers:
            found = layer(found)
            if min(found.shape[-2:]) >= 2 * GRID:
                found = F.max_pool2d(found, 2)
        found = F.relu(self.hidden(F.adaptive_avg_pool2d(found, GRID).flatten(1)))
        # a pose needs more digits than half precision has, and the heads cost nothing
        with torch.autocast(found.device.type, enabled=False):
            found = found.to(self.hidden.weight.dtype)
            if context is not None:
                found = torch.cat((found, context.to(found)), 1)
            return {name: head(found).float() for name, head in self.heads.items()}


class ConvLayer(nn.Module):
    """A 3×3 convolution that keeps the size, BatchNorm, ReLU; with ``wrap`` it goes around the first spatial axis."""

    def __init__(self, before: int, after: int, wrap: bool = False) -> None:
        super().__init__()
        self.wrap = wrap
        self.convolution = nn.Conv2d(before, after, 3, padding=(0 if wrap else 1, 1), bias=False)
        self.norm = nn.BatchNorm2d(after)

    def forward(self, images: Tensor) -> Tensor:
        """``(B, before, h, w)`` → ``(B, after, h, w)``."""
        if self.wrap:
            images = F.pad(images, (0, 0, 1, 1), mode="circular")
        return F.relu(self.norm(self.convolution(images)))


def _head(width: int, start: Tensor) -> nn.Linear:
    head = nn.Linear(width, len(start))
    nn.init.zeros_(head.weight)
    with torch.no_grad():
        head.bias.copy_(start)
    return head
