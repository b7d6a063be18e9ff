"""TokenSTN in a training loop of your own: scikit-learn's digits, a small CNN, two CPU cores, two minutes.

    python examples/own_training_loop.py                        # before and after, as a table
    python examples/own_training_loop.py --picture one.png      # and one image on its way through

The classifier is trained upright and then frozen. The rectifier needs no labels: each image is turned by a known angle,
and the belief about the angle is trained to hold it.
"""

from __future__ import annotations

import argparse
import math

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

import tokenstn
from tokenstn.geometry import Orbit, Rotation, invert, rotation_group, warp

SIZE = 28


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images ``(N, 1, 28, 28)`` and labels, test images and labels; every fourth digit is a test image."""
    pixels, targets = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    images = F.pad(F.interpolate(images, size=20, mode="bicubic").clamp(0, 1), (4, 4, 4, 4))
    labels = torch.tensor(targets)
    test = torch.arange(len(images)) % 4 == 0
    return images[~test], labels[~test], images[test], labels[test]


def fit(parameters, loss_of, images: Tensor, labels: Tensor, epochs: int, rate: float) -> None:
    """AdamW with a one-cycle schedule over shuffled batches of 128."""
    parameters = list(parameters)
    steps = epochs * math.ceil(len(images) / 128)
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(128):
            optimizer.zero_grad()
            loss_of(images[rows], labels[rows]).backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()


class SmallCNN(nn.Module):
    """Three convolutions; any module will do."""

    def __init__(self) -> None:
        super().__init__()
        self.early = nn.Sequential(_convolution(1, 32), nn.MaxPool2d(2), _convolution(32, 64), nn.MaxPool2d(2))
        self.late = nn.Sequential(_convolution(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))

    def forward(self, images: Tensor) -> Tensor:
        return self.late(self.early(images))


def _convolution(channels: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())


def train_classifier(images: Tensor, labels: Tensor, epochs: int = 20) -> nn.Module:
    """A classifier for the digits as they are, give or take a slight turn."""
    classifier = SmallCNN().train()

    def loss(batch: Tensor, target: Tensor) -> Tensor:
        jitter = Rotation().matrix((torch.rand(len(batch)) - 0.5) * 0.5)
        return F.cross_entropy(classifier(warp(batch, jitter, padding="zeros")), target, label_smoothing=0.1)

    fit(classifier.parameters(), loss, images, labels, epochs, rate=5e-3)
    return classifier.eval().requires_grad_(False)


def train_rectifier(model: tokenstn.TokenSTN, images: Tensor, epochs: int = 40) -> None:
    """Turn every image by a known angle, and raise the belief in that angle. No labels."""

    def loss(batch: Tensor, _: Tensor) -> Tensor:
        angle = (torch.rand(len(batch)) * 2 - 1) * math.pi
        turned = warp(
            batch, invert(Rotation().matrix(angle)), padding="zeros"
        )  # "apply pose g" is a warp by its inverse
        return -model.localize(turned)["rotation"].log_prob(angle).mean()

    trained = [parameter for parameter in model.train().parameters() if parameter.requires_grad]
    fit(trained, loss, images, torch.zeros(len(images)), epochs, rate=1e-3)
    model.eval()


@torch.no_grad()
def accuracy(predict, images: Tensor, labels: Tensor, order: int = 16) -> tuple[float, float]:
    """Share of right answers upright, and over all rotations of order 16."""
    orbit = Orbit(images, rotation_group(order), padding="zeros")
    right = [(predict(turned).argmax(-1) == labels).float().mean().item() for _, turned in orbit]
    return right[0], sum(right) / order


def main(picture: str | None, classifier_epochs: int, rectifier_epochs: int) -> None:
    torch.manual_seed(0)
    train_images, train_labels, test_images, test_labels = digits()
    classifier = train_classifier(train_images, train_labels, classifier_epochs)
    model = tokenstn.TokenSTN(
        classifier, primitives=("rotation",), shared="early", input_size=(SIZE, SIZE), localization_size=SIZE
    )
    train_rectifier(model, train_images, rectifier_epochs)
    print(f"{'':24}upright   16 rotations")
    for name, predict in {
        "the classifier alone": lambda x: classifier(x),
        "rectified, 1 view": lambda x: model(x, views=1).probabilities,
        "rectified, auto": lambda x: model(x).probabilities,
    }.items():
        upright, orbit = accuracy(predict, test_images, test_labels)
        print(f"{name:24}{upright:7.1%}   {orbit:12.1%}")
    if picture:
        from picture import draw

        draw(model, test_images, test_labels, picture)
        print(f"wrote {picture}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", help="write a picture of one image on its way through")
    parser.add_argument("--classifier-epochs", type=int, default=20)
    parser.add_argument("--rectifier-epochs", type=int, default=40)
    main(**vars(parser.parse_args()))
