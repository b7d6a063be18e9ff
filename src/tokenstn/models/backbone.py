"""Any classifier seen as (prefix, whole): the first layers for the localizer, all of it for the classification."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tokenstn.geometry.constants import constant
from tokenstn.models.blueprint import Blueprint, blueprint_of
from tokenstn.models.first_layer import input_channels, patch_size
from tokenstn.models.prefix import Prefix, find_prefix
from tokenstn.models.preprocessing import Preprocessing

DEFAULT_SIZE = (224, 224)
# what the localizer reads: pixels of the shorter side, a share of the image as a float, height and width; None is half
LocalizationSize = int | float | tuple[int, int] | None


class Backbone(nn.Module):
    """A classifier and the way to the tokens of its first layers.

    Args:
        classifier: any module from images ``(B, C, H, W)`` to logits ``(B, classes)`` or an object with ``.logits``.
        shared: how many entries of timm's ``forward_intermediates``, or the name of a layer; None for no prefix.
        input_size: height and width that the classifier is used with, where it does not say so itself.
        preprocessing: what its images went through; read from a timm model's own configuration when None.

    >>> import timm
    >>> backbone = Backbone(timm.create_model("resnet18", num_classes=3).eval(), shared=2)
    >>> backbone.tokens(torch.rand(1, 3, 64, 64)).shape, backbone.logits(torch.rand(1, 3, 64, 64)).shape
    (torch.Size([1, 64, 16, 16]), torch.Size([1, 3]))
    """

    def __init__(
        self,
        classifier: nn.Module,
        shared: int | str | None,
        input_size: tuple[int, int] | None = None,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        super().__init__()
        if hasattr(classifier, "_orig_mod"):
            raise ValueError(
                "the classifier was compiled: give it as it was before, and compile the whole, torch.compile(model) or "
                "model.compile()"
            )
        self.classifier = classifier
        self.shared = shared
        self.input_size = input_size or _input_size(classifier)
        _require_size(classifier, self.input_size)
        self.preprocessing = known = preprocessing or Preprocessing.of(classifier, self.input_size)
        self.channels = input_channels(classifier, self.input_size) if known is None else len(known.mean)
        self.blueprint: Blueprint | None = None  # of the whole classifier, where only its prefix is left
        self.prefix: Prefix | None = None
        self.token_width = 0
        self.multiple = 1
        self.any_size = False
        if shared is not None:
            self._find_prefix(shared)

    def logits(self, images: Tensor) -> Tensor:
        """The classifier's own answer, ``(B, classes)``."""
        output = self.classifier(images)
        return output if isinstance(output, Tensor) else output.logits

    def tokens(self, images: Tensor) -> Tensor:
        """The tokens after the shared layers, ``(B, D, h, w)``. They are shared as they are: no gradient flows back."""
        assert self.prefix is not None
        with torch.no_grad():
            return self.prefix(images)

    def reading_size(self, height: int, width: int, wanted: LocalizationSize) -> tuple[int, int]:
        """The size at which the prefix reads an image: ``wanted``, or half the image, as near as the backbone can.

        A classifier of a fixed size reads at that.
        """
        wanted = 0.5 if wanted is None else wanted
        if not self.any_size:
            return (height, width) if isinstance(wanted, float) else self.input_size
        if isinstance(wanted, tuple):
            target: tuple[float, float] = wanted
        else:
            ratio = wanted if isinstance(wanted, float) else wanted / min(height, width)
            target = height * ratio, width * ratio
        return tuple(max(1, round(side / self.multiple)) * self.multiple for side in target)  # pyright: ignore

    def own_size(self, height: int, width: int) -> tuple[int, int]:
        """The size that images of another classifier are brought to, to be read as this one's own are.

        They keep their aspect, and with it the unit of a translation, unless this one reads at one size only.
        """
        if not self.any_size:
            return self.input_size
        enlarged = min(self.input_size) / min(height, width)
        return round(height * enlarged), round(width * enlarged)

    def prefix_only(self) -> Backbone:
        """A copy that keeps what the prefix needs (most timm models lose their later layers), with its own tensors."""
        pruned = copy.deepcopy(self.classifier)
        if isinstance(self.shared, int):
            try:
                pruned.prune_intermediate_layers([self.shared - 1], prune_norm=True, prune_head=True)  # pyright: ignore
            except Exception:  # a few of timm's models fail in their own ways, some when they are half done
                pruned = copy.deepcopy(self.classifier)
        prefix = Backbone(pruned, self.shared, self.input_size, self.preprocessing)
        prefix.blueprint = self.blueprint or self.find_blueprint()
        return prefix

    def find_blueprint(self) -> Blueprint | None:
        """How to build the classifier again; None when it is not one of timm's or torchvision's own."""
        return blueprint_of(self.classifier, self._example())

    def _example(self) -> Tensor:
        """An image that the classifier accepts, ``(1, C, H, W)``: a ramp, so that no two pixels of a row are alike."""
        parameter = next((each for each in self.classifier.parameters() if each.is_floating_point()), torch.zeros(()))
        ramp = torch.linspace(-1, 1, self.input_size[1], device=parameter.device, dtype=parameter.dtype)
        return ramp.expand(1, self.channels or 3, *self.input_size).contiguous()

    def _find_prefix(self, shared: int | str) -> None:
        classifier = self.classifier
        example = self._example()
        try:
            self.prefix = find_prefix(classifier, shared, example)
            self.token_width = self.tokens(example).shape[1]
        except (RuntimeError, AssertionError) as error:
            raise ValueError(
                f"{type(classifier).__name__} does not run on images of shape {tuple(example.shape[1:])} "
                f"({str(error).splitlines()[0]}): pass input_size=(height, width), and a preprocessing with a mean and "
                "std for each channel that it takes"
            ) from error
        self.multiple = _size_multiple(classifier, shared)
        self.any_size = True
        height, width = self.reading_size(*self.input_size, wanted=None)
        try:
            self.tokens(example.new_zeros(1, example.shape[1], height, width))
        except (RuntimeError, AssertionError, ValueError):
            self.any_size = False
            warnings.warn(
                f"{type(classifier).__name__} cannot read images at half size ({height}×{width}): poses are localized "
                "at full size, which takes about four times the tokens",
                stacklevel=4,
            )


def resize(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Antialiased resize ``(B, C, H, W)`` → ``(B, C, *size)`` that keeps the aspect, cutting off what is too long.

    A pixel of an image that shrinks by a whole number, as at half size, is the mean of a square: much faster to make.
    """
    if tuple(images.shape[-2:]) == size:
        return images
    height, width = images.shape[-2:]
    factor = height // size[0]
    if (height, width) == (factor * size[0], factor * size[1]):
        return F.avg_pool2d(images, factor)
    shrink = max(size[0] / height, size[1] / width)
    rows, columns = (
        min(given, max(1, round(wanted / shrink))) for given, wanted in zip((height, width), size, strict=True)
    )
    top, left = (height - rows) // 2, (width - columns) // 2
    images = images[..., top : top + rows, left : left + columns]
    down, across = (
        constant(resampling, given, wanted, like=images) for given, wanted in zip((rows, columns), size, strict=True)
    )
    with torch.autocast(images.device.type, enabled=False):
        return down @ images @ across.T


def resampling(given: int, wanted: int, device: torch.device | None = None) -> Tensor:
    """Weights ``(wanted, given)`` of each new pixel of a line: a triangle that is wide enough not to alias.

    Two products with these are torch's antialiased bilinear resize.

    >>> resampling(4, 2)
    tensor([[0.4286, 0.4286, 0.1429, 0.0000],
            [0.0000, 0.1429, 0.4286, 0.4286]])
    """
    shrink = given / wanted
    centres, pixels = (torch.arange(count, device=device) + 0.5 for count in (wanted, given))
    weights = (1 - (pixels - shrink * centres[:, None]).abs() / max(1.0, shrink)).clamp(min=0)
    return weights / weights.sum(1, keepdim=True)


def _input_size(classifier: nn.Module) -> tuple[int, int]:
    """The image size a classifier was made for: timm, torchvision and Hugging Face each keep it somewhere else."""
    size = getattr(getattr(classifier, "patch_embed", None), "img_size", None)
    size = size or (getattr(classifier, "pretrained_cfg", None) or {}).get("input_size", (None,))[1:]
    size = size or getattr(classifier, "image_size", None)
    size = size or getattr(getattr(classifier, "config", None), "image_size", None) or DEFAULT_SIZE
    height, width = (size, size) if isinstance(size, int) else size
    return int(height), int(width)


def _require_size(classifier: nn.Module, size: tuple[int, int]) -> None:
    """Refuse a size that a classifier of one size only would refuse at the first call, in its own words."""
    patches: Any = getattr(classifier, "patch_embed", None)
    fixed = getattr(patches, "img_size", None) if getattr(patches, "strict_img_size", False) else None
    if fixed is not None and tuple(fixed) != tuple(size):
        raise ValueError(
            f"{type(classifier).__name__} was made for images of {fixed[0]}×{fixed[1]} pixels, and input_size is "
            f"{size[0]}×{size[1]}: leave it out, or make the classifier for that size (timm: img_size=…)"
        )


def _size_multiple(classifier: Any, shared: int | str) -> int:
    """What a side must be a multiple of: the patch of a ViT; patch × window × downsampling of a Swin."""
    patch = max(patch_size(classifier))
    windows = [max(module.window_size) for module in classifier.modules() if hasattr(module, "dynamic_mask")]
    if not windows:
        return patch
    stages = shared if isinstance(shared, int) else len(classifier.layers)
    return patch * max(windows) * 2 ** (stages - 1)
