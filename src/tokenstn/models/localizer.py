"""From the shared tokens to the raw numbers of one posterior per primitive.

Tokens are pooled to at most 14×14, normalised, projected to a width of 192, given 2-D sine-cosine positions (the tokens
of a CNN or a Swin carry little position of their own), mixed by two pre-norm transformer layers and averaged; each
primitive has a head of two layers whose last one starts at zero with its bias at the identity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from timm.models.vision_transformer import Block
from torch import Tensor, nn
from torch.nn import functional as F

from tokenstn.geometry.constants import constant

MOST_TOKENS = 14  # along each side


class Localizer(nn.Module):
    """Tokens ``(B, D, h, w)`` → ``{primitive: (B, outputs)}`` in fp32.

    Args:
        token_width: D.
        initial: for each primitive the raw numbers that a fresh network puts out, ``(outputs,)``.

    >>> fresh = Localizer(8, {"rotation": torch.zeros(36)})
    >>> fresh(torch.rand(2, 8, 4, 4))["rotation"].shape
    torch.Size([2, 36])
    """

    def __init__(
        self,
        token_width: int,
        initial: Mapping[str, Tensor],
        width: int = 192,
        depth: int = 2,
        heads: int = 6,
        mlp_ratio: float = 2.0,
    ) -> None:
        super().__init__()
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
        height, width = (min(side, MOST_TOKENS) for side in tokens.shape[-2:])
        if (height, width) != tuple(tokens.shape[-2:]):
            tokens = F.adaptive_avg_pool2d(tokens, (height, width))
        tokens = tokens.flatten(2).transpose(1, 2)
        tokens = self.projection(self.norm_in(tokens.to(self.norm_in.weight.dtype)))
        tokens = tokens + constant(token_positions, height, width, tokens.shape[-1], like=tokens)
        summary = self.norm_out(self.layers(tokens)).mean(1)
        # the pose needs more digits than half precision has, and the heads cost nothing
        with torch.autocast(summary.device.type, enabled=False):
            summary = summary.to(self.norm_in.weight.dtype)
            return {name: head(summary).float() for name, head in self.heads.items()}


def token_positions(height: int, width: int, channels: int, device: torch.device | None = None) -> Tensor:
    """Sine and cosine of the tokens' places in the isotropic frame, ``(height · width, channels)``.

    The frequencies run from one radian per unit to one half wave per token of a 14×14 grid.
    """
    frequencies = torch.logspace(0, math.log10(math.pi * MOST_TOKENS / 2), channels // 4, device=device)
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
