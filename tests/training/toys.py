"""Small images with a direction."""

import torch
from torch import Tensor, nn

SIDE = 20


def grid() -> tuple[Tensor, Tensor]:
    """x to the right and y down, from −1 to 1."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, SIDE), torch.linspace(-1, 1, SIDE), indexing="ij")
    return x, y


def comets(count: int, generator: torch.Generator) -> Tensor:
    """Upright comets ``(count, 1, 20, 20)``: a bright head above a tail, of random shape and place, on noise."""
    x, y = grid()
    head, tail, shift_x, shift_y = torch.rand(4, count, 1, 1, generator=generator)
    x, y = x + 0.2 * (shift_x - 0.5), y + 0.2 * (shift_y - 0.5)
    bright = torch.exp(-(x**2 + (y + 0.35) ** 2) / (0.02 + 0.03 * head))
    faint = 0.5 * torch.exp(-(x**2 / 0.02 + (y - 0.15) ** 2 / (0.05 + 0.1 * tail)))
    return (bright + faint + _noise(count, generator)).unsqueeze(1)


def arrows(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Arrows pointing right, down, left and up ``(count, 1, 20, 20)``, and the number of quarter turns clockwise."""
    x, y = grid()
    shift_x, shift_y, thick = torch.rand(3, count, 1, 1, generator=generator)
    x, y = x + 0.2 * (shift_x - 0.5), y + 0.2 * (shift_y - 0.5)
    shaft = (y.abs() < 0.12 + 0.08 * thick) & (x > -0.7) & (x < 0.2)
    tip = (x >= 0.1) & (y.abs() < 0.7 - x)
    right = (shaft | tip).float() + _noise(count, generator)
    turns = torch.randint(4, (count,), generator=generator)
    return torch.stack([image.rot90(-int(k)) for image, k in zip(right, turns, strict=True)]).unsqueeze(1), turns


def shapes(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A T, a ring, a comb and a wedge, upright ``(count, 1, 20, 20)``: no turn or mirror makes one of another."""
    x, y = grid()
    shift_x, shift_y = torch.rand(2, count, 1, 1, generator=generator)
    x, y = x + 0.2 * (shift_x - 0.5), y + 0.2 * (shift_y - 0.5)
    radius = torch.sqrt(x**2 + y**2)
    inside = (x.abs() < 0.7) & (y.abs() < 0.7)
    tee = inside & ((y < -0.4) | (x.abs() < 0.17))
    ring = (radius > 0.4) & (radius < 0.7)
    comb = inside & ((y > 0.45) | (torch.sin(14 * x) > 0.2))
    wedge = inside & (x + 0.6 * y < -0.1)
    labels = torch.randint(4, (count,), generator=generator)
    drawn = torch.stack((tee, ring, comb, wedge), 1).float()
    return (drawn[torch.arange(count), labels] + _noise(count, generator)).unsqueeze(1), labels


def trained_cnn(images: Tensor, labels: Tensor, steps: int = 60) -> nn.Module:
    """A small classifier of the images, trained here in a second."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 25, 4),
    )
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(steps):
        rows = torch.arange(64).add(64 * step) % len(images)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
        optimizer.step()
    return model.eval()


def _noise(count: int, generator: torch.Generator) -> Tensor:
    return 0.05 * torch.randn(count, SIDE, SIDE, generator=generator)
