"""From the shared tokens to the raw numbers of one posterior per primitive.

Neighbouring tokens are averaged to a coarser grid, normalised, projected to a width of 192, given 2-D sine-cosine
positions (the tokens of a CNN or a Swin carry little position of their own), mixed by two pre-norm transformer layers
and averaged; each primitive has a head of two layers whose last one starts at zero with its bias at the identity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tokenstn.geometry.constants import constant

GRID = 14  # tokens along the shorter side
FINEST = 14  # grid whose tokens are half a wave of the highest frequency apart


class Localizer(nn.Module):
    """Tokens ``(B, D, h, w)`` → ``{primitive: (B, outputs)}`` in fp32.

    Args:
        token_width: D.
        initial: for each primitive the raw numbers that a fresh network puts out, ``(outputs,)``.
        grid: tokens along the shorter side; where there are more, neighbours are averaged.

    >>> fresh = Localizer(8, {"rotation": torch.zeros(36)})
    >>> fresh(torch.rand(2, 8, 4, 4))["rotation"].shape
    torch.Size([2, 36])
    """

    def __init__(
        self,
        token_width: int,
        initial: Mapping[str, Tensor],
        grid: int = GRID,
        width: int = 192,
        depth: int = 2,
        heads: int = 6,
        mlp_ratio: float = 2.0,
    ) -> None:
        super().__init__()
        self.grid = grid
        self.norm_in = nn.LayerNorm(token_width)
        self.projection = nn.Linear(token_width, width)
        self.layers = nn.Sequential(*(Block(width, heads, mlp_ratio=mlp_ratio, qkv_bias=True) for _ in range(depth)))
        self.norm_out = nn.LayerNorm(width)
        for module in self.modules():  # learns faster than torch's default
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        self.heads = nn.ModuleDict({name: _head(width, start) for name, start in initial.items()})

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        given = (tokens.shape[-2], tokens.shape[-1])
        height, width = coarser(given, self.grid)
        tokens = tokens.flatten(2).transpose(1, 2)
        if (height, width) != given:
            tokens = constant(grid_means, given, (height, width), like=tokens) @ tokens
        tokens = self.projection(self.norm_in(tokens.to(self.norm_in.weight.dtype)))
        tokens = tokens + constant(token_positions, height, width, tokens.shape[-1], like=tokens)
        summary = self.norm_out(self.layers(tokens)).mean(1)
        # the pose needs more digits than half precision has, and the heads cost nothing
        with torch.autocast(summary.device.type, enabled=False):
            summary = summary.to(self.norm_in.weight.dtype)
            return {name: head(summary).float() for name, head in self.heads.items()}


def coarser(size: tuple[int, int], grid: int) -> tuple[int, int]:
    """Height and width of a grid whose shorter side is ``grid`` at most, and whose aspect is kept.

    >>> coarser((7, 14), 5), coarser((4, 4), 5)
    ((5, 10), (4, 4))
    """
    shrink = max(1.0, min(size) / grid)
    return round(size[0] / shrink), round(size[1] / shrink)


def grid_means(given: tuple[int, int], wanted: tuple[int, int], device: torch.device | None = None) -> Tensor:
    """Weights ``(wanted tokens, given tokens)`` of each coarse token: the share of its area that a given one covers.

    >>> grid_means((1, 3), (1, 2))
    tensor([[0.6667, 0.3333, 0.0000],
            [0.0000, 0.3333, 0.6667]])
    """
    sides = []
    for count, fewer in zip(given, wanted, strict=True):
        cells, tokens = torch.arange(fewer, device=device)[:, None] * count / fewer, torch.arange(count, device=device)
        overlap = torch.minimum(cells + count / fewer, tokens + 1.0) - torch.maximum(cells, tokens.float())
        sides.append(overlap.clamp(min=0) * fewer / count)
    return torch.kron(*sides)


def token_positions(height: int, width: int, channels: int, device: torch.device | None = None) -> Tensor:
    """Sine and cosine of the tokens' places in the isotropic frame, ``(height · width, channels)``.

    The frequencies run from one radian per unit to one half wave per token of a 14×14 grid.
    """
    frequencies = torch.logspace(0, math.log10(math.pi * FINEST / 2), channels // 4, device=device)
    shorter = min(height, width)
    y, x = (
        ((2 * torch.arange(count, device=device) + 1 - count) / shorter)[:, None] * frequencies
        for count in (height, width)
    )
    rows = torch.cat((y.sin(), y.cos()), -1)[:, None, :].expand(-1, width, -1)
    columns = torch.cat((x.sin(), x.cos()), -1)[None, :, :].expand(height, -1, -1)
    return torch.cat((rows, columns), -1).flatten(0, 1)


def _head(width: int, start: Tensor) -> nn.Sequential:
    last = nn.Linear(width, len(start))
    nn.init.zeros_(last.weight)
    with torch.no_grad():
        last.bias.copy_(start)
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), last)
