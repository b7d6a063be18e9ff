"""Each rival, trained for a second or two on turned digits, beats the same frozen classifier alone.

The regressors learn turns up to 60°: far from upright the classification loss has almost no gradient for them. Those
that search or are equivariant are tried on the full circle. TTA has nothing to learn, and is left out: its docstring
says why it need not improve.
"""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tokenstn.baselines import Rival, create, pixels
from tokenstn.data import read_mnist_mini
from tokenstn.geometry import Pose, warp

SIXTY, CIRCLE = math.radians(60), math.pi
# name: largest turn, steps, peak learning rate, options
SETTINGS: dict[str, tuple[float, int, float, dict]] = {
    "stn": (SIXTY, 80, 5e-3, {}),
    "head-stn": (SIXTY, 80, 5e-3, {"primitives": ("rotation",)}),
    "pstn-gamma": (SIXTY, 80, 5e-3, {"primitives": ("rotation",)}),
    "pstn-gauss": (SIXTY, 80, 5e-3, {"primitives": ("rotation",)}),
    "polar": (SIXTY, 80, 5e-3, {}),
    "logpolar": (SIXTY, 80, 5e-3, {}),
    "diffeo-stn": (SIXTY, 80, 5e-3, {}),
    "canprior-g": (CIRCLE, 80, 1e-2, {"fields": 4, "size": 16}),
    "canprior-s": (CIRCLE, 40, 1e-2, {"fields": 6, "size": 16}),
    "its": (CIRCLE, 0, 0.0, {"primitives": ("rotation",)}),
}
Digits = tuple[Tensor, Tensor]


class TinyCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 12, 5, stride=2, padding=2)
        self.second = nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.head = nn.Linear(24 * 49, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(F.relu(self.second(F.relu(self.first(images)))).flatten(1))


def digits(split: str, count: int) -> Digits:
    table = read_mnist_mini()
    rows = table.split(split)[:count]
    assert isinstance(table.items, Tensor)
    return (table.items[rows].float() / 255 - 0.13) / 0.31, table.labels[rows]


def turn(images: Tensor, reach: float, generator: torch.Generator) -> Tensor:
    angle = reach * (2 * torch.rand(len(images), generator=generator) - 1)
    return warp(images, Pose.of(rotation=angle).matrix, inverse=True)


def fit(model: nn.Module, loss, steps: int, rate: float) -> None:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    generator = torch.Generator().manual_seed(0)
    model.train()
    for _ in range(steps):
        total = loss(torch.randint(800, (48,), generator=generator), generator)
        optimizer.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


@pytest.fixture(scope="module")
def training() -> Digits:
    return digits("train", 800)


@pytest.fixture(scope="module")
def classifier(training: Digits) -> nn.Module:
    torch.manual_seed(0)
    images, labels = training
    model = TinyCNN()
    fit(model, lambda rows, _: F.cross_entropy(model(images[rows]), labels[rows]), 150, 3e-3)
    return model.requires_grad_(False)


@pytest.mark.parametrize("name", SETTINGS)
def test_it_beats_the_classifier_alone_on_turned_digits(name, classifier, training, monkeypatch):
    monkeypatch.setattr(pixels, "WIDTHS", (8, 16, 24, 24))  # the real one takes ten times as long
    monkeypatch.setattr(pixels, "FEATURES", 64)
    reach, steps, rate, options = SETTINGS[name]
    images, labels = training
    torch.manual_seed(1)
    model = create(name, classifier, **options).eval()
    assert isinstance(model, Rival)

    def loss(rows: Tensor, generator: torch.Generator) -> Tensor:
        upright = images[rows]
        terms = model.losses(turn(upright, reach, generator), labels[rows], noise=generator, upright=upright)
        return torch.stack(list(terms.values())).sum()

    if steps:
        fit(model, loss, steps, rate)
    test_images, test_labels = digits("test", 400)
    turned = turn(test_images, reach, torch.Generator().manual_seed(5))
    with torch.no_grad():
        rival, bare = model(turned).probabilities, model.classify(turned, {}).probabilities
    right, bare_right = ((said.argmax(1) == test_labels).float().mean().item() for said in (rival, bare))
    assert right > bare_right + 0.05, f"{right:.3f} against {bare_right:.3f}"
