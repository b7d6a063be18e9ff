"""A photo of any size as the network's input, inside an exported graph, bit for bit as ``data.fit`` makes it.

ONNX has an antialiased Resize, and Pillow another one; both are a grey level away from torch's on up to half a percent
of the pixels, which moves probabilities by up to 1.5e-3. So the graph does torch's own integer arithmetic: weights
rounded to 16 bits, columns first and then rows, pixels rounded to whole numbers after each. Sums are exact in float64.
Resizing, cropping and padding by reflection are together one matrix for the columns and one for the rows.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tokenstn.models.onnx import FIT, IMAGES, PHOTOS
from tokenstn.models.preprocessing import Preprocessing

LARGEST_WEIGHT = 2**15  # what does not fit into 16 bits with a sign
MOST_BITS = 22  # of a weight, behind the point


class Fitting(nn.Module):
    """photos uint8 ``(B, C, H, W)`` of one size → images ``(B, C, h, w)`` normalised, and the fit ``(3, 3)``.

    The latter is P of ``geometry.fit_matrix``, from the photo's frame to the network's.
    """

    inputs: ClassVar = (PHOTOS,)

    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.preprocessing = preprocessing
        self.mean: Tensor
        self.std: Tensor
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(getattr(preprocessing, name))[:, None, None])

    def forward(self, photos: Tensor) -> dict[str, Tensor]:
        sides = (photos.shape[-2], photos.shape[-1])
        photo = [torch.scalar_tensor(side, dtype=torch.float64) for side in sides]
        resized = self._resized(photo)
        starts = [((n - m) / 2).floor() for n, m in zip(resized, self.preprocessing.size, strict=True)]
        pixels = photos.double()
        for axis in (1, 0):
            weights, one = self._weights(sides[axis], photo[axis], resized[axis])
            weights = weights[self._places(starts[axis], resized[axis], self.preprocessing.size[axis])]
            pixels = pixels @ weights.T if axis == 1 else weights @ pixels
            pixels = ((pixels + one / 2) / one).floor().clamp(0.0, 255.0)
        return {IMAGES: (pixels.float() / 255 - self.mean) / self.std, FIT: self._matrix(photo, resized, starts)}

    def _resized(self, photo: list[Tensor]) -> list[Tensor]:
        """Height and width after resizing, before anything is cut off or added."""
        size, how = self.preprocessing.size, self.preprocessing.resize
        if how == "squash":
            return [torch.full_like(given, wanted) for given, wanted in zip(photo, size, strict=True)]
        # not wanted / given, which torch computes as wanted · (1 / given)
        ratios = [torch.full_like(given, wanted) / given for given, wanted in zip(photo, size, strict=True)]
        if how == "crop":
            scale = torch.maximum(*ratios) / self.preprocessing.crop_share
            return [(given * scale).round().clamp_min(float(wanted)) for given, wanted in zip(photo, size, strict=True)]
        scale = torch.minimum(*ratios)
        return [(given * scale).round().clamp(1.0, float(wanted)) for given, wanted in zip(photo, size, strict=True)]

    def _weights(self, side: int, given: Tensor, resized: Tensor) -> tuple[Tensor, Tensor]:
        """Whole numbers ``(resized, side)``, float64, and what a sum of 1 is in them."""
        cubic = self.preprocessing.interpolation == "bicubic"
        count: Any = resized.long().item()  # a symbol while it is traced
        torch._check(count >= 1)
        pixel = torch.arange(side, dtype=torch.float64)
        scale = given / resized
        wide = scale.clamp_min(1.0)  # the kernel grows when the image shrinks: antialiasing
        centre = (scale * (torch.arange(count, dtype=torch.float64) + 0.5)).unsqueeze(1)
        reach = wide * (2.0 if cubic else 1.0)
        inside = (pixel >= (centre - reach + 0.5).floor()) & (pixel < (centre + reach + 0.5).floor())
        kernel = _cubic if cubic else _linear
        weights = torch.where(inside, kernel((pixel - centre + 0.5) * (1 / wide)), 0.0)
        weights = weights / weights.sum(1, keepdim=True)
        # as many bits as let the largest weight of all rows fit
        powers = torch.exp2(torch.arange(MOST_BITS + 1, dtype=torch.float64))
        fits = (weights.amax((0, 1)) * powers + 0.5).floor() < LARGEST_WEIGHT
        one = torch.where(fits, powers, 1.0).amax(0)
        return torch.where(weights < 0, (weights * one - 0.5).ceil(), (weights * one + 0.5).floor()), one

    def _places(self, start: Tensor, resized: Tensor, wanted: int) -> Tensor:
        """Which rows of the resized image the network sees, ``(wanted,)``."""
        place = torch.arange(wanted, dtype=torch.float64) + start
        if self.preprocessing.resize == "pad":
            place = torch.remainder(place, 2 * resized)
            place = torch.minimum(place, 2 * resized - 1 - place)
        return place.long()

    def _matrix(self, photo: list[Tensor], resized: list[Tensor], starts: list[Tensor]) -> Tensor:
        size = self.preprocessing.size
        unit, shorter = 2 / min(size), torch.minimum(*photo)
        zoom = [shorter / 2 * n / m * unit for n, m in zip(resized, photo, strict=True)]
        shift = [(n / 2 - start - m / 2) * unit for n, start, m in zip(resized, starts, size, strict=True)]
        zero, one = torch.zeros_like(shorter), torch.ones_like(shorter)
        rows = (zoom[1], zero, shift[1], zero, zoom[0], shift[0], zero, zero, one)
        return torch.stack(rows).reshape(3, 3).float()


def _linear(x: Tensor) -> Tensor:
    return (1 - x.abs()).clamp_min(0.0)


def _cubic(x: Tensor) -> Tensor:
    """Keys' kernel with a = −½, as torch and Pillow have it when they antialias."""
    x = x.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((x - 5) * x + 8) * x - 4
    return torch.where(x < 1, near, torch.where(x < 2, -0.5 * far, 0.0))
