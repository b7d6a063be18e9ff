"""Steerable convolutions: filters R(r) e^(imφ), whose answer of order m turns by m times the angle of the input.

After "Harmonic Networks: Deep Translation and Rotation Equivariance" (Worrall, Garbin, Turmukhambetov and Brostow,
2017). Features are complex and have an order, here 0 or 1; a filter from order p to order q has order q − p. Exact on
quarter turns, and on all others up to the sampling of the filters. Different from the publication: an RMS norm of each
image instead of BatchNorm, so that the network treats each image alike in training and testing.

Complex numbers are pairs of real ones, ``(B, 2, orders, fields, h, w)``: no half-precision complex type exists.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KERNEL = 5
RINGS = (0.0, 1.0, 2.0)  # radii of the filters' profiles in pixels, each a bell
BELL = 0.6
THRESHOLD = -0.5  # a fresh layer ignores what is below half of the mean magnitude
SMALL = 1e-6


class HarmonicConv(nn.Module):
    """``(B, 2, orders, before, h, w)`` → ``(B, 2, 2, after, h, w)``, of orders 0 and 1, with norm and threshold.

    Args:
        orders: how many the input has: 1 for an image, 2 for features.
    """

    basis: Tensor

    def __init__(self, before: int, after: int, orders: int) -> None:
        super().__init__()
        self.after, self.orders = after, orders
        # (re or im, order out, order in, field out, field in, ring)
        self.weight = nn.Parameter(torch.randn(2, 2, orders, after, before, len(RINGS)))
        self.gain = 1 / math.sqrt(2 * orders * before * len(RINGS))
        self.threshold = nn.Parameter(torch.full((2, after, 1, 1), THRESHOLD))
        self.register_buffer("basis", harmonics(), persistent=False)

    def forward(self, maps: Tensor) -> Tensor:
        found = F.conv2d(maps.flatten(1, 3), self.filters().to(maps.dtype), padding=KERNEL // 2)
        found = found.unflatten(1, (2, 2, self.after)).float()
        found = found * torch.rsqrt(found.square().mean((1, 3, 4, 5), keepdim=True) + SMALL)
        magnitude = torch.sqrt(found.square().sum(1, keepdim=True) + SMALL)
        return found * (F.relu(magnitude + self.threshold) / magnitude)

    def filters(self) -> Tensor:
        """The real convolution of the complex one, ``(2 · 2 · after, 2 · orders · before, k, k)``."""
        rows = []
        for q in range(2):
            blocks = []
            for p in range(self.orders):
                (real, imaginary), (cos, sin) = self.weight[:, q, p] * self.gain, self.basis[:, q - p + 1]
                blocks.append((_mix(real, cos) - _mix(imaginary, sin), _mix(real, sin) + _mix(imaginary, cos)))
            rows.append(tuple(torch.cat(parts, 1) for parts in zip(*blocks, strict=True)))
        real, imaginary = (torch.cat(parts, 0) for parts in zip(*rows, strict=True))
        return torch.cat((torch.cat((real, -imaginary), 1), torch.cat((imaginary, real), 1)), 0)


def harmonics() -> Tensor:
    """Cosine and sine of the filters of orders −1, 0, 1 on every ring: ``(2, 3, rings, k, k)``."""
    across = torch.arange(KERNEL, dtype=torch.float64) - KERNEL // 2
    y, x = torch.meshgrid(across, across, indexing="ij")
    radius, angle = torch.hypot(x, y), torch.atan2(y, x)
    profile = torch.exp(-0.5 * ((radius - torch.tensor(RINGS)[:, None, None]) / BELL).square())
    profile = profile * (radius <= KERNEL / 2)
    filters = []
    for order in (-1, 0, 1):
        rings = profile * (radius > 0) if order else profile  # an angle has no value at the centre
        rings = rings / rings.square().sum((-2, -1), keepdim=True).sqrt().clamp_min(SMALL)
        filters.append(torch.stack((rings * torch.cos(order * angle), rings * torch.sin(order * angle))))
    return torch.stack(filters, 1).float()


class HarmonicNetwork(nn.Module):
    """Images ``(B, C, s, s)``, s a multiple of 8 → a complex number of order 1 as a pair, ``(B, 2)``.

    Turning an image by an angle turns its pair by the same angle. The pair is a weighted mean of the features of order
    1, and of those of order 0 times (x + iy): the response to filters as large as the image.
    """

    def __init__(self, channels: int, fields: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            HarmonicConv(before, fields, orders)
            for before, orders in ((channels, 1), (fields, 2), (fields, 2), (fields, 2))
        )
        self.last = nn.Parameter(torch.randn(2, 2, fields) / math.sqrt(fields))  # (re or im, order, field)

    def forward(self, images: Tensor) -> Tensor:
        with torch.autocast(images.device.type, enabled=False):
            real = images.to(self.last.dtype)
            maps = torch.stack((real, torch.zeros_like(real)), 1).unsqueeze(2)
            for number, layer in enumerate(self.layers):
                if number:
                    maps = F.avg_pool3d(maps.flatten(1, 2), (1, 2, 2)).unflatten(1, (2, -1))
                maps = layer(maps.to(self.last.dtype))
            return self._direction(maps.float())

    def _direction(self, maps: Tensor) -> Tensor:
        side = maps.shape[-1]
        along = (2 * torch.arange(side, device=maps.device) + 1 - side) / side
        real, imaginary = maps[:, 0, 0], maps[:, 1, 0]
        x, y = along, along[:, None]
        moment = torch.stack((real * x - imaginary * y, real * y + imaginary * x), 1).mean((-2, -1))
        found = torch.stack((moment, maps[:, :, 1].mean((-2, -1))), 2)  # (B, re or im, order, field)
        (a, b), (c, d) = found.unbind(1), self.last.float()
        return torch.stack(((a * c - b * d).sum((1, 2)), (a * d + b * c).sum((1, 2))), -1)


def _mix(weight: Tensor, basis: Tensor) -> Tensor:
    """``(out, in, rings)`` and ``(rings, k, k)`` → ``(out, in, k, k)``."""
    return torch.einsum("oir,rhw->oihw", weight, basis.to(weight))
