"""Polar and log-polar localizers: around a predicted origin a rotation becomes a shift, in log-polar a scale as well.

After "Polar Transformer Networks" (Esteves, Allen-Blanchette, Zhou and Daniilidis, 2018). A small ConvNet predicts a
heat map; its centroid is the origin; the image is resampled to (angle, radius) around it, with radii from one pixel to
half the diagonal (0.7071 · W of a square); a ConvNet that goes around the angles regresses M.

Different from the publication: there the polar image itself is classified, which needs a classifier of its own; here it
is read by the localizer alone, so that every classifier can be used (as in the paper that TokenSTN follows). The heat
map is a softmax, which starts with the origin at the centre, and the heads are told the origin, which the polar image
does not show.
"""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tokenstn.baselines.base import CommonOptions, Rival
from tokenstn.baselines.belief import Belief
from tokenstn.baselines.matrices import IDENTITY_ENTRIES, affine_matrix
from tokenstn.baselines.pixels import ConvLayer, PixelLocalizer
from tokenstn.baselines.stn import AFFINE
from tokenstn.geometry import as_primitives


class Polar(Rival):
    """M regressed from the polar image.

    Args:
        log: radii grow geometrically, so that a scale becomes a shift.

    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> Polar(classifier, log=True).eval()(torch.rand(2, 1, 16, 16)).probabilities.shape
    torch.Size([2, 3])
    """

    def __init__(self, classifier: nn.Module | str, *, log: bool = False, **common: Unpack[CommonOptions]) -> None:
        super().__init__(classifier, **common)
        self.primitives = as_primitives(AFFINE)
        self.localizer = self.beside_classifier(PolarLocalizer(self.channels, log))

    def localize(self, images: Tensor) -> Belief:
        assert self.localizer is not None
        return Belief.certain(affine_matrix(self.localizer(images)))


class PolarLocalizer(nn.Module):
    """Images ``(B, C, H, W)`` → the six entries of M, ``(B, 6)``."""

    def __init__(self, channels: int, log: bool) -> None:
        super().__init__()
        self.log = log
        self.origin = OriginNet(channels)
        start = {"matrix": torch.tensor(IDENTITY_ENTRIES)}
        self.reader = PixelLocalizer(channels, start, wrap=True, context=2)

    def forward(self, images: Tensor) -> Tensor:
        origin = self.origin(images)
        return self.reader(polar_images(images, origin, self.log), origin)["matrix"]


class OriginNet(nn.Module):
    """The centroid of a heat map, ``(B, C, H, W)`` → ``(B, 2)`` in the isotropic frame; a fresh one says the centre."""

    def __init__(self, channels: int, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList((ConvLayer(channels, width), ConvLayer(width, width)))
        self.heat = nn.Conv2d(width, 1, 1)
        nn.init.zeros_(self.heat.weight)
        # no gradient reaches a bias that a softmax takes away again
        self.heat.bias = None

    def forward(self, images: Tensor) -> Tensor:
        found = images.to(self.heat.weight.dtype)
        for layer in self.layers:
            found = F.avg_pool2d(layer(found), 2, ceil_mode=True)
        heat = self.heat(found).float().squeeze(1)
        share = heat.flatten(1).softmax(1).view_as(heat)
        height, width = images.shape[-2:]
        x = _cell_centres(heat.shape[2], width / min(height, width), share)
        y = _cell_centres(heat.shape[1], height / min(height, width), share)
        return torch.stack(((share.sum(1) * x).sum(1), (share.sum(2) * y).sum(1)), -1)


def polar_images(images: Tensor, origin: Tensor, log: bool = False) -> Tensor:
    """Images ``(B, C, H, W)`` around ``origin (B, 2)``: ``(B, C, angles, radii)``, as many as the shorter side has.

    Row k lies at the angle 2πk / angles, clockwise from the x axis; the number of angles is a multiple of four, so that
    quarter turns are whole shifts. Sampling is bilinear, in fp32, with reflection padding.
    """
    height, width = images.shape[-2:]
    shorter = min(height, width)
    angles, smallest = 4 * math.ceil(shorter / 4), 2 / shorter
    largest = math.hypot(height, width) / shorter
    angle = torch.arange(angles, device=images.device) * (2 * math.pi / angles)
    if log:
        radius = torch.logspace(math.log(smallest), math.log(largest), shorter, base=math.e, device=images.device)
    else:
        radius = torch.linspace(smallest, largest, shorter, device=images.device)
    with torch.autocast(images.device.type, enabled=False):
        rays = torch.stack((angle.cos(), angle.sin()), -1)[:, None, :] * radius[:, None]
        places = origin.float()[:, None, None, :] + rays
        # grid_sample runs from −1 to 1 along each side; the isotropic frame only along the shorter one
        grid = places * places.new_tensor([shorter / width, shorter / height])
        found = F.grid_sample(images.float(), grid, padding_mode="reflection", align_corners=False)
    return found.to(images.dtype)


def _cell_centres(count: int, extent: float, like: Tensor) -> Tensor:
    return (2 * torch.arange(count, device=like.device, dtype=like.dtype) + 1 - count) * (extent / count)
