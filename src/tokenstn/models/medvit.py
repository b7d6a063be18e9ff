"""MedViT: convolution blocks with an attention block at the end of each group, after "MedViT: A Robust Vision
Transformer for Generalized Medical Image Classification" (Manzari et al., 2023).

    stem /4 → 3 ECB 96 | /2, 3 ECB 192, LTB 256 | /2, (4 ECB 384, LTB 512) × depth/5 | /2, 2 ECB 768, LTB 1024 → linear

ECB is the efficient convolution block, LTB the local transformer block. Parameters are named as in the authors' code,
so their weights load; what they call small, base and large are the paper's T, S and L, here tiny, small and large.

Different from the authors' code: the intermediates can be read, images may have any number of channels, exported models
keep their norms (theirs takes them for folded and leaves them out), and dropouts that are zero in all three sizes are
gone. Like theirs, and unlike the usual residual block, drop path spares the feed-forward part. The patch momentum
changer of the paper belongs to the training, not to the network.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from timm.layers.weight_init import trunc_normal_
from timm.models._features import feature_take_indices
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.ops import StochasticDepth

HEAD_WIDTH = 32  # channels of an attention head, and of a group of the grouped convolutions
GROUP = 5  # blocks of stage 3 that repeat: four ECB and an LTB
EPS = 1e-5


class MedViT(nn.Module):
    """Images ``(B, in_chans, H, W)`` of 25 pixels a side or more → logits ``(B, num_classes)``.

    Args:
        depth: blocks of stage 3, a multiple of 5: tiny 10, small 20, large 30.
        drop_path: how often training leaves out a residual branch of the last block; it grows linearly up to there.

    ``forward_intermediates`` has one entry per stage: the tokens that enter it, behind its patch embedding. The second,
    which is the default of ``TokenSTN``, ends where the paper's localizer reads.

    >>> model = MedViT(depth=5, num_classes=7, in_chans=1).eval()
    >>> model(torch.rand(2, 1, 28, 28)).shape
    torch.Size([2, 7])
    >>> (tokens,) = model.forward_intermediates(torch.rand(2, 1, 64, 64), indices=[1], intermediates_only=True)
    >>> tokens.shape
    torch.Size([2, 192, 8, 8])
    """

    def __init__(self, depth: int = 20, num_classes: int = 1000, in_chans: int = 3, drop_path: float = 0.2) -> None:
        super().__init__()
        if depth < GROUP or depth % GROUP:
            raise ValueError(f"depth={depth}: stage 3 is made of groups of {GROUP} blocks, give a multiple of {GROUP}")
        self.depth, self.drop_path = depth, drop_path
        self.stem = nn.Sequential(
            ConvNormReLU(in_chans, 64, stride=2),
            ConvNormReLU(64, 32),
            ConvNormReLU(32, 64),
            ConvNormReLU(64, 64, stride=2),
        )
        # the output channels of each block and how much it pools keys and values, 0 for a block without attention
        stages = [
            [(96, 0)] * 3,
            [(192, 0)] * 3 + [(256, 4)],
            ([(384, 0)] * (GROUP - 1) + [(512, 2)]) * (depth // GROUP),
            [(768, 0)] * 2 + [(1024, 1)],
        ]
        last = sum(map(len, stages)) - 1
        blocks: list[nn.Module] = []
        self.stage_starts: list[int] = []  # where in ``features``
        self.feature_info: list[dict[str, Any]] = []  # of the intermediates, as timm describes them
        channels = 64
        for stage, plan in enumerate(stages):
            start = len(blocks)
            self.stage_starts.append(start)
            self.feature_info.append(
                {"num_chs": plan[0][0], "reduction": 4 * 2**stage, "module": f"features.{start}.patch_embed"}
            )
            for outputs, pooling in plan:
                stride = 2 if stage > 0 and len(blocks) == start else 1
                drop = drop_path * len(blocks) / last
                if pooling:
                    blocks.append(TransformerBlock(channels, outputs, stride, drop, pooling))
                else:
                    blocks.append(ConvolutionBlock(channels, outputs, stride, drop))
                channels = outputs
        self.features = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(channels, eps=EPS)
        self.proj_head = nn.Sequential(nn.Linear(channels, num_classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, images: Tensor) -> Tensor:
        x = self.norm(self.features(self.stem(images)))
        return self.proj_head(x.mean((-2, -1)))

    def forward_intermediates(
        self,
        images: Tensor,
        indices: int | list[int] | None = None,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ) -> list[Tensor] | tuple[Tensor, list[Tensor]]:
        """The tokens ``(B, C, h, w)`` that enter the stages asked for, called as timm's models are.

        Args:
            indices: of stages, from 0; a number means the last n, None all.
            stop_early: compute nothing behind the last one. Only with ``intermediates_only``.
            intermediates_only: otherwise the normed map behind the last stage comes first.
        """
        if norm or output_fmt != "NCHW":
            raise ValueError(f"norm={norm}, output_fmt={output_fmt!r}: MedViT has its maps unnormed and as NCHW only")
        wanted, last = feature_take_indices(len(self.stage_starts), indices)
        intermediates: list[Tensor] = []
        x = self.stem(images)
        block: Any
        for index, block in enumerate(self.features):
            x = block.patch_embed(x)
            if index in self.stage_starts:
                stage = self.stage_starts.index(index)
                if stage in wanted:
                    intermediates.append(x)
                if stage == last and stop_early and intermediates_only:
                    break
            x = block.mix(x)
        return intermediates if intermediates_only else (self.norm(x), intermediates)

    def prune_intermediate_layers(
        self, indices: int | list[int] = 1, prune_norm: bool = False, prune_head: bool = True
    ) -> list[int]:
        """Drop what the intermediates at these indices do not need: of the last stage, all but its patch embedding."""
        wanted, last = feature_take_indices(len(self.stage_starts), indices)
        *before, entered = self.features[: self.stage_starts[last] + 1]
        patch_embed: Any = entered.patch_embed
        # a container with this one name: the parameters that stay keep theirs
        self.features = nn.Sequential(*before, nn.Sequential(OrderedDict(patch_embed=patch_embed)))
        if prune_norm:
            self.norm = nn.Identity()
        if prune_head:
            self.proj_head = nn.Identity()
        return wanted


def medvit_tiny(num_classes: int = 1000, in_chans: int = 3, drop_path: float = 0.1) -> MedViT:
    """MedViT-T, 32.2 M parameters at 1,000 classes; ``MedViT_small`` in the authors' code."""
    return MedViT(10, num_classes, in_chans, drop_path)


def medvit_small(num_classes: int = 1000, in_chans: int = 3, drop_path: float = 0.2) -> MedViT:
    """MedViT-S, 45.4 M parameters at 1,000 classes; ``MedViT_base`` in the authors' code."""
    return MedViT(20, num_classes, in_chans, drop_path)


def medvit_large(num_classes: int = 1000, in_chans: int = 3, drop_path: float = 0.2) -> MedViT:
    """MedViT-L, 58.7 M parameters at 1,000 classes; ``MedViT_large`` in the authors' code, too."""
    return MedViT(30, num_classes, in_chans, drop_path)


class ConvNormReLU(nn.Module):
    """A 3×3 convolution of the stem: ``(B, C, H, W)`` → ``(B, outputs, H / stride, W / stride)``, rounded up."""

    def __init__(self, channels: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, outputs, 3, stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x)).relu()


class PatchEmbedding(nn.Module):
    """``(B, C, h, w)`` → ``(B, outputs, h / stride, w / stride)``, rounded up; the identity where nothing changes."""

    def __init__(self, channels: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        unchanged = stride == 1 and channels == outputs
        # at an odd border the average is over the pixels that are there
        self.pool = nn.Identity() if stride == 1 else nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False)
        self.conv = nn.Identity() if unchanged else nn.Conv2d(channels, outputs, 1, bias=False)
        self.norm = nn.Identity() if unchanged else nn.BatchNorm2d(outputs, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(self.pool(x)))


class ConvolutionalAttention(nn.Module):
    """Multi-head convolutional attention, a grouped and a 1×1 convolution: ``(B, C, h, w)`` → the same shape."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        groups = channels // HEAD_WIDTH
        self.group_conv3x3 = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(channels, eps=EPS)
        self.projection = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.projection(self.norm(self.group_conv3x3(x)).relu())


class SelfAttention(nn.Module):
    """Multi-head attention with pooled keys and values: ``(B, N, C)`` → the same shape.

    ``pooling``: by its square, as it stands for an area. The pooled tokens are neighbours along a row, not in a square,
    because the sequence is pooled and not the map; the public weights were trained so. Left-over tokens give no key.
    """

    def __init__(self, channels: int, pooling: int) -> None:
        super().__init__()
        self.q = nn.Linear(channels, channels)
        self.k = nn.Linear(channels, channels)
        self.v = nn.Linear(channels, channels)
        self.proj = nn.Linear(channels, channels)
        self.sr = nn.Identity() if pooling == 1 else nn.AvgPool1d(pooling**2)
        self.norm = nn.Identity() if pooling == 1 else nn.BatchNorm1d(channels, eps=EPS)

    def forward(self, tokens: Tensor) -> Tensor:
        pooled = self.norm(self.sr(tokens.transpose(1, 2))).transpose(1, 2)
        q, k, v = (
            x.unflatten(2, (-1, HEAD_WIDTH)).transpose(1, 2) for x in (self.q(tokens), self.k(pooled), self.v(pooled))
        )
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class SqueezeExcite(nn.Module):
    """Each channel times a gate in [0, 1] that depends on the averages of all: ``(B, C, h, w)`` → the same shape."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels), nn.Hardsigmoid())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.fc(x.mean((-2, -1)))[:, :, None, None]


class LocalFeedForward(nn.Module):
    """A residual inverted bottleneck, ``expansion`` times as wide: ``(B, C, h, w)`` → the same shape."""

    def __init__(self, channels: int, expansion: int) -> None:
        super().__init__()
        hidden = channels * expansion
        self.conv = nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden, eps=EPS),
            nn.Hardswish(),
            nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden, eps=EPS),
            nn.Hardswish(),
            # two or three units for a thousand channels: the authors reduce by the width, and so do their weights
            SqueezeExcite(hidden, expansion),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels, eps=EPS),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x)


class ConvolutionBlock(nn.Module):
    """ECB, the efficient convolution block: ``(B, C, h, w)`` → ``(B, outputs, h / stride, w / stride)``."""

    def __init__(self, channels: int, outputs: int, stride: int, drop_path: float) -> None:
        super().__init__()
        self.patch_embed = PatchEmbedding(channels, outputs, stride)
        self.mhca = ConvolutionalAttention(outputs)
        self.drop_path = _drop_path(drop_path)
        self.conv = LocalFeedForward(outputs, expansion=3)
        self.norm = nn.BatchNorm2d(outputs, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(self.patch_embed(x))

    def mix(self, x: Tensor) -> Tensor:
        """What follows the patch embedding, ``(B, outputs, h, w)`` → the same shape."""
        x = x + self.drop_path(self.mhca(x))
        return x + self.conv(self.norm(x))


class TransformerBlock(nn.Module):
    """LTB, the local transformer block: ``(B, C, h, w)`` → ``(B, outputs, h / stride, w / stride)``.

    Three quarters of the outputs are attention, the last quarter is convolutional attention over them; they share the
    drop path in the same proportion.
    """

    def __init__(self, channels: int, outputs: int, stride: int, drop_path: float, pooling: int) -> None:
        super().__init__()
        attended = outputs * 3 // 4
        self.patch_embed = PatchEmbedding(channels, attended, stride)
        self.norm1 = nn.BatchNorm2d(attended, eps=EPS)
        self.e_mhsa = SelfAttention(attended, pooling)
        self.mhsa_drop_path = _drop_path(0.75 * drop_path)
        self.projection = PatchEmbedding(attended, outputs - attended)
        self.mhca = ConvolutionalAttention(outputs - attended)
        self.mhca_drop_path = _drop_path(0.25 * drop_path)
        self.norm2 = nn.BatchNorm2d(outputs, eps=EPS)
        self.conv = LocalFeedForward(outputs, expansion=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(self.patch_embed(x))

    def mix(self, x: Tensor) -> Tensor:
        """What follows the patch embedding, ``(B, 3/4 outputs, h, w)`` → ``(B, outputs, h, w)``."""
        attention = self.e_mhsa(self.norm1(x).flatten(2).transpose(1, 2))
        x = x + self.mhsa_drop_path(attention).transpose(1, 2).unflatten(2, x.shape[-2:])
        local = self.projection(x)
        local = local + self.mhca_drop_path(self.mhca(local))
        x = torch.cat([x, local], dim=1)
        return x + self.conv(self.norm2(x))


def _drop_path(share: float) -> StochasticDepth:
    # torchvision's, because a traced graph keeps it as one node, in training and in evaluation alike
    return StochasticDepth(share, mode="row")
