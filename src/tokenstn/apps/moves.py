"""What the sliders of the page do to a photo, as one pose and one warp of its original pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from io import BytesIO

import torch
from PIL import Image
from torch import Tensor

from tokenstn.geometry import Pose, warp
from tokenstn.geometry.warp import Padding

LARGEST = 800  # pixels along the longer side of a photo on the page: sliders are to be felt at once
FLAT = 12.0  # standard deviation of the pixels along the edge, of 255, below which there is a background


@dataclass(frozen=True)
class Moves:
    """turn in degrees clockwise; zoom as a factor; shear as shift for each unit of height; right and down in percent of
    half the shorter side; mirrored left-right, before all others."""

    turn: float = 0.0
    zoom: float = 1.0
    shear: float = 0.0
    right: float = 0.0
    down: float = 0.0
    mirrored: bool = False

    @property
    def matrix(self) -> Tensor:
        """The pose of the moved object, ``(3, 3)`` float64."""
        pose = Pose.of(
            rotation=torch.tensor(math.radians(self.turn), dtype=torch.float64),
            scale=self.zoom,
            shear=self.shear,
            translation=(self.right / 100, self.down / 100),
        ).matrix
        mirror = torch.diag(torch.tensor([-1.0 if self.mirrored else 1.0, 1.0, 1.0], dtype=torch.float64))
        return pose @ mirror

    def apply(self, photo: Tensor) -> Tensor:
        """A photo ``(C, H, W)`` uint8 with its object moved, of the same size; exactly itself where nothing moves."""
        if self == Moves():
            return photo
        return warp(photo.unsqueeze(0), self.matrix, inverse=True, padding=padding_for(photo))[0]


def padding_for(photo: Tensor) -> Padding:
    """How the space around a photo ``(C, H, W)`` is filled: on with its background where it has one, else reflected."""
    edge = torch.cat((photo[:, 0], photo[:, -1], photo[:, :, 0], photo[:, :, -1]), -1).float()
    return "border" if bool(edge.std(-1).amax() < FLAT) else "reflection"


def shrink(photo: Tensor, largest: int = LARGEST) -> Tensor:
    """A photo ``(C, H, W)`` uint8 with a longer side of at most ``largest`` pixels."""
    from tokenstn.data.fit import fit

    height, width = photo.shape[1:]
    factor = largest / max(height, width)
    if factor >= 1:
        return photo
    return fit(photo, (max(1, round(height * factor)), max(1, round(width * factor))), "squash")


def to_png(photo: Tensor) -> bytes:
    """The file of a photo ``(1 | 3, H, W)`` uint8."""
    pixels = photo[0] if len(photo) == 1 else photo.movedim(0, -1)
    file = BytesIO()
    Image.fromarray(pixels.contiguous().numpy()).save(file, "PNG", compress_level=1)
    return file.getvalue()
