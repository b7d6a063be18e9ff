"""What a classifier looked at, drawn where it lies in the photo: digits in larger pictures, a few minutes on two cores.

    python examples/attribution_in_the_photo.py --out attribution.png

The classifier sees the rectified image, so that a map of what counted is upright and of 7×7 cells. ``p.to_photo`` takes
it back through the pose and through the crop, to the photo's own pixels; the outline shows what the network saw.
"""

from __future__ import annotations

import argparse
import math

import matplotlib
import torch
from matplotlib import pyplot as plt
from own_training_loop import SIZE, SmallCNN, digits, train_classifier, train_rectifier
from torch import Tensor

import tokenstn
from tokenstn.data import fit, to_float
from tokenstn.geometry import Pose, invert, warp

matplotlib.use("Agg")

PHOTO = (240, 360)  # height and width


def photo_of(digit: Tensor, degrees: float) -> Tensor:
    """A digit ``(1, 28, 28)`` lying in a wide photo, uint8 ``(1, H, W)``, beside something that is none."""
    shift = Pose.of(rotation=torch.tensor(math.radians(degrees)), translation=(0.08, -0.05))
    photo = warp(digit[None], invert(shift.matrix), PHOTO, padding="zeros", mode="bicubic")[0]
    rows, columns = torch.meshgrid(torch.arange(PHOTO[0]), torch.arange(PHOTO[1]), indexing="ij")
    photo = photo + 0.5 * (((rows - 60) ** 2 + (columns - 35) ** 2) < 400)  # outside of what the network sees
    return (255 * photo.clamp(0, 1)).round().to(torch.uint8)


def what_counted(classifier: SmallCNN, image: Tensor) -> Tensor:
    """Where the early features of an image ``(1, 1, h, w)`` spoke for the answer: activation × gradient, ``(7, 7)``."""
    features = classifier.early(image).detach().requires_grad_()
    scores = classifier.late(features)
    scores[0, scores[0].argmax()].backward()
    assert features.grad is not None
    return (features * features.grad).sum(1)[0].clamp_min(0).detach()


def main(out: str, turn: float, classifier_epochs: int, rectifier_epochs: int) -> None:
    torch.manual_seed(0)
    train_images, train_labels, test_images, test_labels = digits()
    classifier = train_classifier(train_images, train_labels, classifier_epochs)
    assert isinstance(classifier, SmallCNN)
    prepared = tokenstn.Preprocessing((SIZE, SIZE), mean=(0.0,), std=(1.0,))
    size = (SIZE, SIZE)
    model = tokenstn.TokenSTN(
        classifier, ("rotation",), shared="early", localization_size=SIZE, input_size=size, preprocessing=prepared
    )
    train_rectifier(model, train_images, rectifier_epochs)
    figure, grid = plt.subplots(3, 3, figsize=(10, 7), layout="constrained")
    for axes, wanted in zip(grid, (2, 4, 7), strict=True):
        photo = photo_of(test_images[test_labels == wanted][0], turn)
        p = model(to_float(fit(photo, prepared.size)[None], prepared.mean, prepared.std))
        assert p.pose is not None and p.rectified is not None
        heat = what_counted(classifier, p.rectified)
        back = p.to_photo(0, PHOTO, prepared)
        outline = back.points(torch.tensor([[0.0, 0], [SIZE, 0], [SIZE, SIZE], [0, SIZE], [0, 0]]))
        said = f"a {p.probabilities.argmax().item()}, turned by {math.degrees(p.pose.rotation.item()):.0f}°"
        show(axes[0], photo[0], "the photo")
        show(axes[1], p.rectified[0, 0].detach(), f"rectified: {said}", heat)
        show(axes[2], photo[0], "what counted, in the photo", back.heatmap(heat))
        axes[2].plot(*outline.T, color="#0072b2", linewidth=1)
    figure.savefig(out, dpi=100)
    print(f"wrote {out}")


def show(axes, picture: Tensor, title: str, heat: Tensor | None = None) -> None:
    """A picture in grey, with a map over it."""
    height, width = picture.shape
    axes.imshow(picture, cmap="gray_r", extent=(0, width, height, 0))
    if heat is not None:
        share = heat / heat.max()
        axes.imshow(share, cmap="autumn_r", alpha=0.75 * share, extent=(0, width, height, 0), interpolation="bilinear")
    axes.set_title(title, fontsize=9)
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_xticks([])
    axes.set_yticks([])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="attribution.png", help="the picture to write")
    parser.add_argument("--turn", type=float, default=130.0, help="how far the digits lie from upright, in degrees")
    parser.add_argument("--classifier-epochs", type=int, default=20)
    parser.add_argument("--rectifier-epochs", type=int, default=40)
    main(**vars(parser.parse_args()))
