"""A small world in which every answer is known: signposts, and models that read them by rule.

The red channel holds a spot above, left of, below or right of the centre: the class. The green channel holds a marker
that points right on an upright photo, inside the inscribed disc. The blue channel is a ramp from left to right, the
same on all photos: its corners give the angle away.
"""

import math

import torch
from torch import Tensor, nn

from tokenstn import TokenSTN
from tokenstn.data import ImageTable
from tokenstn.geometry import Pose, Rotation, invert, warp
from tokenstn.models import Preprocessing
from tokenstn.posteriors import Circular, Posterior
from tokenstn.posteriors.circular import bin_angles

SIDE = 24
CLASSES = ("above", "left", "below", "right")
PLACES = ((0.0, -0.5), (-0.5, 0.0), (0.0, 0.5), (0.5, 0.0))
PREPROCESSING = Preprocessing((SIDE, SIDE), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def frame(side: int = SIDE) -> tuple[Tensor, Tensor]:
    """x to the right and y down at the pixel centres."""
    line = (2 * torch.arange(side) + 1 - side) / side
    y, x = torch.meshgrid(line, line, indexing="ij")
    return x, y


def blobs(side: int = SIDE) -> Tensor:
    """Where the red spot of each class is, ``(4, side, side)``, from 0 to 1."""
    x, y = frame(side)
    return torch.stack([torch.exp(-((x - a) ** 2 + (y - b) ** 2) / 0.04) for a, b in PLACES])


def signposts(labels: Tensor, side: int = SIDE, seed: int = 0) -> Tensor:
    """Upright photos uint8 ``(N, 3, side, side)`` of classes ``(N,)``, or of sets of labels ``(N, 4)``."""
    x, y = frame(side)
    generator = torch.Generator().manual_seed(seed)
    spots = nn.functional.one_hot(labels, 4).float() if labels.ndim == 1 else labels.float()
    bright = 0.4 + 0.6 * torch.rand(len(labels), 1, 1, generator=generator)
    red = bright * torch.einsum("nk,khw->nhw", spots, blobs(side)).clamp(0, 1)
    green = torch.exp(-((x - 0.6) ** 2 + y**2) / 0.02).expand_as(red)
    blue = (0.5 + 0.5 * x).expand_as(red)
    return (torch.stack((red, green, blue), 1) * 255).round().to(torch.uint8)


def table_of(count: int = 24, **changes) -> ImageTable:
    """Signposts of all classes in turn, all in the test split."""
    labels = torch.arange(count) % 4
    settings = {
        "name": "signposts",
        "items": signposts(labels),
        "labels": labels,
        "classes": CLASSES,
        "splits": {"test": torch.arange(count)},
    }
    return ImageTable(**(settings | changes))


class Reader(nn.Module):
    """Logits from the red spot alone."""

    def __init__(self, multi_label: bool = False) -> None:
        super().__init__()
        self.eyes = nn.Identity()
        self.multi_label = multi_label
        self.blobs = nn.Parameter(blobs() / blobs().sum((1, 2), keepdim=True))

    def forward(self, images: Tensor) -> Tensor:
        red = self.eyes(images)[:, 0] * 0.25 + 0.5
        seen = 10 * torch.einsum("bhw,khw->bk", red, self.blobs)
        return 4 * (seen - 1) if self.multi_label else 3 * seen


class HonestSTN(TokenSTN):
    """Finds the angle of the green marker, a ring belief around it."""

    sharpness = 60.0

    def __init__(self, multi_label: bool = False, **settings) -> None:
        given = {"primitives": ("rotation",), "shared": "eyes", "input_size": (SIDE, SIDE), "classes": CLASSES}
        settings = given | {"preprocessing": PREPROCESSING, "multi_label": multi_label} | settings
        super().__init__(Reader(multi_label), **settings)
        self.eval()

    def localize(self, images: Tensor) -> dict[str, Posterior]:
        angle = self.angle(images)
        return {"rotation": Circular(Rotation(), self.sharpness * torch.cos(bin_angles().float() - angle[:, None]))}

    def angle(self, images: Tensor) -> Tensor:
        x, y = frame()
        green = images[:, 1] * 0.25 + 0.5
        return torch.atan2((green * y).sum((1, 2)), (green * x).sum((1, 2)))


class CheatingSTN(HonestSTN):
    """Finds the angle by comparing the corners, outside the inscribed disc, with corners it has seen."""

    def angle(self, images: Tensor) -> Tensor:
        x, y = frame()
        corners = torch.hypot(x, y) > 1
        angles = torch.arange(72) * math.radians(5)
        ramp = (2 * x).expand(72, 1, SIDE, SIDE)
        seen = warp(ramp, invert(Pose.of(rotation=angles).matrix))[:, 0, corners]
        return angles[torch.cdist(images[:, 2, corners], seen).argmin(1)]


def bare_model(**settings) -> TokenSTN:
    given = {"input_size": (SIDE, SIDE), "classes": CLASSES, "preprocessing": PREPROCESSING}
    return TokenSTN(Reader(), primitives=(), **(given | settings)).eval()


class Clock:
    """Stands in for the module ``time``: it advances only when told to, so that timings can be asserted."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Timed(nn.Module):
    """A classifier that takes two hundredths of a second for each image, on a clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.eyes = nn.Identity()
        self.clock = clock

    def forward(self, images: Tensor) -> Tensor:
        self.clock.now += 0.02 * len(images)
        return self.eyes(images).mean((2, 3))
