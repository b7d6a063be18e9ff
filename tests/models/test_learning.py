"""A tiny model, trained here, turns its belief when its input is turned."""

import math

import pytest
import torch
from torch import Tensor

from tokenstn import TokenSTN
from tokenstn.geometry import Rotation, invert, warp, wrap_angle

from .classifiers import PlainCNN


def comets(count: int, generator: torch.Generator) -> Tensor:
    """Upright comets ``(count, 1, 28, 28)``: a bright head above a tail, of random shape and place, on noise."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, 28), torch.linspace(-1, 1, 28), indexing="ij")
    head, tail, shift_x, shift_y = torch.rand(4, count, 1, 1, generator=generator)
    x, y = x + 0.2 * (shift_x - 0.5), y + 0.2 * (shift_y - 0.5)
    bright = torch.exp(-(x**2 + (y + 0.35) ** 2) / (0.02 + 0.03 * head))
    faint = 0.5 * torch.exp(-(x**2 / 0.02 + (y - 0.15) ** 2 / (0.05 + 0.1 * tail)))
    noise = 0.05 * torch.randn(count, 28, 28, generator=generator)
    return (bright + faint + noise).unsqueeze(1)


def discs(count: int, generator: torch.Generator) -> Tensor:
    """Centred discs of random size on noise ``(count, 1, 28, 28)``: they look the same from every side."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, 28), torch.linspace(-1, 1, 28), indexing="ij")
    width = torch.rand(count, 1, 1, generator=generator)
    disc = torch.exp(-(x**2 + y**2) / (0.05 + 0.2 * width))
    return (disc + 0.05 * torch.randn(count, 28, 28, generator=generator)).unsqueeze(1)


def turned(images: Tensor, angle: Tensor) -> Tensor:
    return warp(images, invert(Rotation().matrix(angle)))


@pytest.fixture(scope="module")
def trained() -> TokenSTN:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    classifier = PlainCNN(channels=1).eval().requires_grad_(False)
    model = TokenSTN(classifier, ("rotation",), shared="body", input_size=(28, 28), localization_size=28).train()
    optimizer = torch.optim.AdamW(model.localizer.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=200, pct_start=0.1)
    for _ in range(200):
        angle = 2 * math.pi * torch.rand(64, generator=generator) - math.pi
        images = torch.cat((comets(52, generator), discs(12, generator)))
        loss = -model.localize(turned(images, angle))["rotation"].log_prob(angle).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.localizer.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


@pytest.mark.parametrize("degrees", [30, 90, 180, -137])
@torch.no_grad()
def test_turning_the_input_turns_the_belief(trained, degrees):
    images = comets(64, torch.Generator().manual_seed(1))
    angle = torch.full((64,), math.radians(degrees))
    before, after = trained.localize(images)["rotation"], trained.localize(turned(images, angle))["rotation"]
    error = wrap_angle(after.best() - before.best() - angle).abs()
    assert error.median() < math.radians(12) and error.quantile(0.9) < math.radians(25)
    follows, stays = after.log_prob(before.best() + angle), after.log_prob(before.best())
    assert (follows > stays + 1).float().mean() > 0.9


@torch.no_grad()
def test_an_image_without_direction_leaves_the_belief_open(trained):
    comet = trained(comets(32, torch.Generator().manual_seed(2)), views=1)
    disc = trained(discs(32, torch.Generator().manual_seed(3)), views=1)
    assert disc.entropy["rotation"].median() > 0.9
    assert disc.entropy["rotation"].median() > comet.entropy["rotation"].median() + 0.3


@torch.no_grad()
def test_rectified_comets_stand_upright(trained):
    images = turned(comets(32, torch.Generator().manual_seed(4)), torch.linspace(-3, 3, 32))
    rectified = trained(images, views=1).rectified
    upper, lower = rectified[:, 0, :14].mean((1, 2)), rectified[:, 0, 14:].mean((1, 2))
    assert ((upper - lower) > 0).float().mean() > 0.9
