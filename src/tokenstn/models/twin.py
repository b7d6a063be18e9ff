"""A twin of a classifier: the same parameters and buffers, its own flags.

The localizer reads the classifier's first layers at another input size and always in evaluation mode, while the
classifier itself keeps its size checks and may be training. The twin copies every module object but shares the
dictionaries that hold its parameters and buffers, so moving, casting, loading or training the classifier moves, casts,
loads or trains the twin, and changing an attribute of the twin leaves the classifier as it was.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import torch
from timm.layers.format import Format
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn import functional

from tokenstn.geometry.constants import constant
from tokenstn.geometry.tracing import compiling_to_run_here


def twin_of(module: nn.Module) -> nn.Module:
    """A twin in evaluation mode."""
    return in_evaluation(_copy_tree(module, {}))


def in_evaluation(twin: nn.Module) -> nn.Module:
    """The twin in evaluation mode, but for what would keep there what it has once made of its parameters.

    LeViT, TinyViT and their like cache attention biases until they are switched to evaluation again, which nobody does
    with a twin: with other weights, or in another precision, it would go on with the old ones.
    """
    for part in twin.eval().modules():
        if hasattr(part, "attention_bias_cache"):
            part.training = True  # of this module alone, which drops nothing out
    return twin


def accept_any_size(twin: Any) -> None:
    """Switch off the fixed input size of a timm ViT, DeiT3, DINOv2, EVA02 or Swin twin; others are left alone.

    So is what wraps such a network and passes its attributes on: what would be set here is not the network's.
    """
    patch_embed: Any = twin._modules.get("patch_embed")
    if patch_embed is None or not getattr(patch_embed, "strict_img_size", False):
        return
    patch_embed.strict_img_size = False
    if _is_patch_convolution(patch_embed.proj):
        patch_embed.proj = PatchProduct(patch_embed.proj)
    if hasattr(twin, "dynamic_img_size"):  # absolute positions, resampled to the grid at hand
        twin.dynamic_img_size = True
        patch_embed.flatten = False
        patch_embed.output_fmt = Format.NHWC
        if type(twin)._pos_embed is VisionTransformer._pos_embed:
            object.__setattr__(twin, "_pos_embed", partial(_add_positions, twin))
    rope = getattr(twin, "rope", None)
    if getattr(rope, "pos_embed", None) is not None:  # rotary positions, cached for one grid
        del twin.rope
        object.__setattr__(twin, "rope", _RopeAtAnySize(rope))
    block: Any
    for block in twin.modules():  # the attention masks of shifted windows, cached for one grid
        if hasattr(block, "dynamic_mask"):
            block.dynamic_mask = True


class PatchProduct(nn.Module):
    """A patch embedding, the convolution of patches that do not overlap, as one matrix product: much faster on a GPU.

    It shares the convolution's parameters: images ``(B, C, H, W)`` → ``(B, D, H / p, W / p)``.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self._parameters = convolution._parameters
        self.patch = convolution.kernel_size

    def forward(self, images: Tensor) -> Tensor:
        (batch, channels), (high, wide) = images.shape[:2], self.patch
        rows, columns = images.shape[2] // high, images.shape[3] // wide
        patches = images[..., : rows * high, : columns * wide].reshape(batch, channels, rows, high, columns, wide)
        patches = patches.permute(0, 2, 4, 1, 3, 5).flatten(3)
        return functional.linear(patches, self.weight.flatten(1), self.bias).permute(0, 3, 1, 2)


def _add_positions(twin: Any, tokens: Tensor) -> Tensor:
    """What timm does for a ViT at another size, ``(B, h, w, D)`` → ``(B, n, D)``, in one product for ten steps."""
    learned, given, wanted = twin.pos_embed, tuple(twin.patch_embed.grid_size), tuple(tokens.shape[1:3])
    exporting = torch.compiler.is_compiling() and not compiling_to_run_here()  # such a graph keeps no weights
    if learned is None or given == wanted or exporting:
        return VisionTransformer._pos_embed(twin, tokens)
    front = learned.shape[1] - given[0] * given[1]  # tokens that have no place, such as that of the class
    with torch.autocast(tokens.device.type, enabled=False):
        places = learned[:, front:].float()
        places = (constant(_resampling, given, wanted, like=places) @ places).to(learned.dtype)
    positions = torch.cat((learned[:, :front], places), 1) if front else places
    fixed = _AtThisSize(twin, positions)
    return VisionTransformer._pos_embed(fixed, tokens.flatten(1, 2))  # pyright: ignore[reportArgumentType]


class _AtThisSize:
    """What timm reads of a ViT to add positions, with those of one grid; torch.compile 2.11 traces no namespace."""

    dynamic_img_size = False

    def __init__(self, twin: Any, positions: Tensor) -> None:
        self.pos_embed, self.pos_drop = positions, twin.pos_drop
        self.cls_token, self.reg_token, self.no_embed_class = twin.cls_token, twin.reg_token, twin.no_embed_class


def _resampling(given: tuple[int, int], wanted: tuple[int, int], device: torch.device) -> Tensor:
    """Weights ``(wanted tokens, given tokens)`` of timm's bicubic resampling of a grid."""
    each = torch.eye(given[0] * given[1], device=device).unflatten(1, given).unsqueeze(0)
    return functional.interpolate(each, wanted, mode="bicubic", antialias=True)[0].flatten(1).T


def _is_patch_convolution(module: Any) -> bool:
    return (
        type(module) is nn.Conv2d
        and module.stride == module.kernel_size
        and module.padding in ((0, 0), "valid")
        and module.dilation == (1, 1)
        and module.groups == 1
    )


class _RopeAtAnySize:
    """timm's rotary embedding for the grid that is asked for, instead of the one cached at its creation."""

    def __init__(self, rope: Any) -> None:
        self.rope = rope

    def get_embed(self, shape: tuple[int, int]) -> Tensor:
        cached = self.rope.pos_embed
        return self.rope._get_pos_embed_values(list(shape), device=cached.device, dtype=cached.dtype)


def _copy_tree(module: nn.Module, copied: dict[int, nn.Module]) -> nn.Module:
    """Copy every module once, also one that stands in several places, keeping the tensor dictionaries shared."""
    if id(module) not in copied:
        # not by copy.copy, which parametrized modules refuse, nor by attributes, which a wrapper may pass on, nor by a
        # __new__ of its own: that of a traced module makes another class
        twin = copied[id(module)] = object.__new__(type(module))
        own = twin.__dict__
        own.update(vars(module))
        for name, value in vars(module).items():  # hooks that are there stay; later ones are not the twin's
            if name.endswith(("_hooks", "_hooks_with_kwargs")):
                own[name] = copy.copy(value)
        own["_modules"] = {
            name: None if child is None else _copy_tree(child, copied) for name, child in module._modules.items()
        }
    return copied[id(module)]
