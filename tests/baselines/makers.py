"""Every method, small, around a small classifier."""

import torch
from torch import Tensor

from tokenstn.baselines import METHODS, Rival, create
from tokenstn.models import TokenSTN

from ..models.classifiers import PlainCNN, shake

RIVALS = tuple(name for name in METHODS if not name.startswith("tokenstn"))
TRAINED = tuple(name for name in RIVALS if name not in ("vanilla", "tta", "its"))
SMALL = {"canprior-g": {"fields": 4}, "canprior-s": {"fields": 4}}


def make(name: str, channels: int = 3, **options) -> TokenSTN | Rival:
    """A fresh method in evaluation mode, around a classifier whose answers differ from image to image."""
    torch.manual_seed(0)
    reads_tokens = name.startswith("tokenstn") and name != "tokenstn-pixels"
    shared = {"shared": "body", "localization_size": 32} if reads_tokens else {}
    classifier = shake(PlainCNN(channels))
    torch.nn.init.normal_(classifier.head.weight)
    return create(name, classifier, **(SMALL.get(name, {}) | shared | options)).eval()


def make_rival(name: str, channels: int = 3, **options) -> Rival:
    """A rival whose localizer says something different for each image."""
    rival = make(name, channels, **options)
    assert isinstance(rival, Rival)
    if rival.localizer is not None:
        shake(rival.localizer)
    return rival


def noise_images(count: int = 4, channels: int = 3, height: int = 32, width: int = 32) -> Tensor:
    """Smooth noise ``(count, channels, height, width)``, of which no two are alike."""
    generator = torch.Generator().manual_seed(3)
    coarse = torch.randn(count, channels, height // 4, width // 4, generator=generator)
    return torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic", align_corners=False)
