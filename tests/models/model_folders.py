"""Models to save, folders to break, and what coming back unchanged means."""

import json
from pathlib import Path

import torch
from torch import nn

from tokenstn import Preprocessing, TokenSTN

from .classifiers import shake, small_vit

SETTINGS = Preprocessing((32, 32), (0.1, 0.2, 0.3), (0.5, 0.6, 0.7), "pad", crop_share=0.9, interpolation="bilinear")


def images(channels: int = 3, size: int = 32) -> torch.Tensor:
    return torch.rand(3, channels, size, size, generator=torch.Generator().manual_seed(0))


def model_of(classifier: nn.Module | None = None, **settings) -> TokenSTN:
    return shake(TokenSTN(classifier or small_vit(), **settings)).eval()


def assert_same_predictions(found: TokenSTN, expected: TokenSTN, batch: torch.Tensor) -> None:
    for views in (1, 3, "auto"):
        with torch.no_grad():
            a, b = found(batch, views=views), expected(batch, views=views)
        torch.testing.assert_close(a.probabilities, b.probabilities, rtol=0, atol=0)
        torch.testing.assert_close(a.pose.matrix, b.pose.matrix, rtol=0, atol=0)
        torch.testing.assert_close(a.views.weights, b.views.weights, rtol=0, atol=0)
        torch.testing.assert_close(a.entropy, b.entropy, rtol=0, atol=0)
        for flag in ("pose_ambiguous", "class_uncertain"):
            assert str(getattr(a, flag)) == str(getattr(b, flag))


def change(folder: Path, **values) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def change_inside(folder: Path, key: str, **values) -> None:
    change(folder, **{key: {**json.loads((folder / "config.json").read_text())[key], **values}})
