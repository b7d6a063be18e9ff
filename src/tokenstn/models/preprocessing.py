"""What an image went through before it reached the classifier, as a value that a model folder keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from tokenstn.geometry import fit_matrix
from tokenstn.geometry.constants import numbers
from tokenstn.geometry.fitting import SMALLEST_SHARE
from tokenstn.models.first_layer import input_channels


@dataclass(frozen=True)
class Preprocessing:
    """Resize, then normalise.

    size: height and width in pixels. resize: ``crop`` scales the photo until it covers size / crop_share and cuts the
    centre out, ``pad`` scales it until it fits and pads, ``squash`` gives up the aspect; the last two show all of it,
    whatever crop_share says. interpolation: ``bilinear`` or ``bicubic``, antialiased. mean, std: of each channel, for
    pixels in [0, 1].

    >>> Preprocessing((224, 224), mean=(0.5,), std=(0.25,)).matrix((240, 360)).diagonal()   # the shorter side is kept
    tensor([1., 1., 1.], dtype=torch.float64)
    """

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: Literal["crop", "pad", "squash"] = "crop"
    crop_share: float = 1.0
    interpolation: Literal["bilinear", "bicubic"] = "bicubic"

    def __post_init__(self) -> None:
        # lists, as JSON has them, become tuples so that equal values compare equal
        for name, kind in (("size", index), ("mean", float), ("std", float)):
            given = getattr(self, name)
            try:
                object.__setattr__(self, name, tuple(kind(number) for number in given))
            except (TypeError, ValueError):
                raise ValueError(f"preprocessing {name} {given!r}: give a sequence of numbers") from None
        if len(self.size) != 2 or min(self.size) < 1:
            raise ValueError(f"preprocessing size {self.size}: give height and width in pixels, both at least 1")
        finite = all(map(math.isfinite, self.mean + self.std))
        if len(self.mean) != len(self.std) or not self.mean or not finite or min(self.std) <= 0:
            raise ValueError(f"preprocessing mean {self.mean} and std {self.std}: one of each per channel, std above 0")
        if self.resize not in ("crop", "pad", "squash"):
            raise ValueError(f"preprocessing resize {self.resize!r}: one of crop, pad, squash")
        if self.interpolation not in ("bilinear", "bicubic"):
            raise ValueError(f"preprocessing interpolation {self.interpolation!r}: bilinear or bicubic")
        if not SMALLEST_SHARE <= self.crop_share <= 1:
            raise ValueError(f"preprocessing crop_share {self.crop_share}: from {SMALLEST_SHARE} to 1")

    def matrix(self, photo_size: tuple[int, int], box: Sequence[int] | None = None) -> Tensor:
        """The step as an affine map P, ``(3, 3)`` float64: the photo's isotropic frame to the network's.

        Args:
            photo_size: height and width of the whole photo.
            box: left, top, right, bottom in pixels, where that part of the photo is cut out first.
        """
        return fit_matrix(photo_size, self.size, self.resize, self.crop_share, box)

    @property
    def fitting(self) -> dict[str, Any]:
        """What ``data.ImageDataset`` takes to prepare images so."""
        names = ("size", "resize", "crop_share", "interpolation")
        return {**{name: getattr(self, name) for name in names}, "channels": len(self.mean)}

    @classmethod
    def of(cls, classifier: nn.Module, size: tuple[int, int]) -> Preprocessing | None:
        """What a timm model's own configuration says; None for other modules.

        Two things are done differently: a photo is padded by reflection (``data.fit``), and it is seen whole where it
        is squashed or padded, while timm cuts off a margin of two to five per cent of a side for a few models.
        """
        settings = getattr(classifier, "pretrained_cfg", None)
        if not settings or "mean" not in settings:
            return None
        mean, std = settings["mean"], settings["std"]
        channels = input_channels(classifier, size) or len(mean)
        if channels != len(mean):  # grey, or more than three: each channel gets the average of the statistics
            mean, std = (sum(mean) / len(mean),) * channels, (sum(std) / len(std),) * channels
        mode = settings.get("crop_mode")
        cropped = mode not in ("squash", "border")
        return cls(
            size=size,
            mean=mean,
            std=std,
            resize="crop" if cropped else "squash" if mode == "squash" else "pad",
            crop_share=(settings.get("crop_pct") or 1.0) if cropped else 1.0,
            interpolation="bilinear" if settings.get("interpolation") == "bilinear" else "bicubic",
        )


class Prepared(Protocol):
    """Whatever says how its images are prepared."""

    @property
    def preprocessing(self) -> Preprocessing | None: ...


def preprocessing_of(model: Prepared, name: str = "this model") -> Preprocessing:
    """How photos become the input of a model; refused where nobody knows."""
    if model.preprocessing is None:
        raise ValueError(
            f"{name} does not say how its images are prepared: make it with tokenstn.TokenSTN(classifier, …, "
            "preprocessing=tokenstn.Preprocessing(size, mean, std))"
        )
    return model.preprocessing


def renormalise(images: Tensor, given: Preprocessing | None, wanted: Preprocessing | None) -> Tensor:
    """Images ``(B, C, H, W)`` normalised for one classifier as another expects them; unchanged if either is unknown."""
    if given is None or wanted is None or (given.mean, given.std) == (wanted.mean, wanted.std):
        return images
    if len(given.mean) != len(wanted.mean):
        raise ValueError(f"images of {len(given.mean)} channels cannot be read by a rectifier of {len(wanted.mean)}")
    pixels = images.float()
    mean, std, new_mean, new_std = (
        numbers(values, like=pixels)[:, None, None] for values in (given.mean, given.std, wanted.mean, wanted.std)
    )
    return ((pixels * std + mean - new_mean) / new_std).to(images.dtype)
