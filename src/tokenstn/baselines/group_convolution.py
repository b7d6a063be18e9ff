"""Group convolutions over the rotations C_n: the same filters, turned by every element.

After "Group Equivariant Convolutional Networks" (Cohen and Welling, 2016). A feature map has an axis of n orientations,
``(B, fields, n, h, w)``; turning the input by 2π / n turns each map and shifts them by one along that axis. Quarter
turns of a filter are exact; the angles in between are bilinear, on the disc that the filter's square contains, so that
a network of such layers is equivariant exactly on quarter turns and nearly so on the others. Different from the
publication: n may be any multiple of four, where it has 4.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tokenstn.geometry import Pose, warp

KERNEL = 5


class GroupConv(nn.Module):
    """Maps ``(B, before, m, h, w)`` → ``(B, after, n, h, w)`` with BatchNorm over fields and ReLU.

    Args:
        order: n, a multiple of four.
        lifts: the input is an image, without orientations: m = 1. Otherwise m = n.
    """

    disc: Tensor

    def __init__(self, before: int, after: int, order: int, lifts: bool = False) -> None:
        super().__init__()
        self.order = order
        orientations = 1 if lifts else order
        self.weight = nn.Parameter(torch.empty(after, before, orientations, KERNEL, KERNEL))
        nn.init.kaiming_uniform_(self.weight.flatten(1, 2), nonlinearity="relu")
        self.norm = nn.BatchNorm3d(after)  # shared by the orientations of a field
        across = torch.arange(KERNEL) - KERNEL // 2
        inside = torch.hypot(across[:, None].float(), across.float()) <= KERNEL / 2
        self.register_buffer("disc", inside.float(), persistent=False)

    def forward(self, maps: Tensor) -> Tensor:
        filters = turned_filters(self.weight * self.disc, self.order).to(maps.dtype)
        # (n, after, before, m, k, k) → one ordinary convolution
        found = F.conv2d(maps.flatten(1, 2), filters.transpose(0, 1).flatten(0, 1).flatten(1, 2), padding=KERNEL // 2)
        return F.relu(self.norm(found.unflatten(1, (-1, self.order))))


def turned_filters(weight: Tensor, order: int) -> Tensor:
    """``(after, before, m, k, k)`` → ``(n, after, before, m, k, k)``: element g turned by 2πg / n, clockwise.

    Along the axis of orientations the filter sees the others relative to its own, so that axis is shifted by g.
    """
    fine = order // 4
    stack = weight.flatten(0, 2).unsqueeze(0)
    between = [stack]
    for step in range(1, fine):
        angle = torch.tensor(step * 2 * math.pi / order, device=weight.device)
        between.append(warp(stack, Pose.of(rotation=angle).matrix, inverse=True, padding="zeros", validate=False))
    turned = []
    for g in range(order):
        filters = between[g % fine].rot90(-(g // fine), (-2, -1)).reshape(weight.shape)
        turned.append(filters.roll(g, 2) if weight.shape[2] > 1 else filters)
    return torch.stack(turned)


class GroupNetwork(nn.Module):
    """Images ``(B, C, s, s)``, s a multiple of 8 → one number for each element, ``(B, n)``.

    Turning an image by element g shifts its numbers by g. The last weights start at zero: all elements are equal then.
    """

    def __init__(self, channels: int, order: int, fields: int) -> None:
        super().__init__()
        self.order = order
        self.layers = nn.ModuleList(
            GroupConv(before, fields, order, lifts)
            for before, lifts in ((channels, True), (fields, False), (fields, False), (fields, False))
        )
        self.last = nn.Parameter(torch.zeros(fields, order))

    def forward(self, images: Tensor) -> Tensor:
        maps = images.to(self.last.dtype).unsqueeze(2)
        for number, layer in enumerate(self.layers):
            if number:
                maps = F.max_pool3d(maps, (1, 2, 2))
            maps = layer(maps)
        found = maps.float().mean((-2, -1))  # (B, fields, n)
        return torch.stack([(found * self.last.roll(g, 1)).sum((1, 2)) for g in range(self.order)], -1)
