"""One image on its way through: what came in, what the model believes, what it looks at, what it answers."""

from __future__ import annotations

import math

import matplotlib
import torch
from matplotlib import pyplot as plt
from torch import Tensor

import tokenstn
from tokenstn.geometry import Rotation, invert, warp, wrap_angle

matplotlib.use("Agg")

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#9a9a9a"  # told apart by colour-blind readers
TURN = math.radians(130)


@torch.no_grad()
def draw(model: tokenstn.TokenSTN, images: Tensor, labels: Tensor, path: str) -> None:
    """Turn the images, and draw the way of two that only rectification gets right: a sure one and an ambiguous one."""
    turned = warp(images, invert(Rotation().matrix(torch.tensor(TURN))), padding="zeros")
    alone = model.classifier(turned).argmax(-1)
    prediction = model(turned, views=4)
    fixed = (alone != labels) & (prediction.probabilities.argmax(-1) == labels)
    spread = model.localize(turned)["rotation"].spread()
    surest = torch.where(fixed, spread, torch.inf).argmin()
    least_sure = torch.where(fixed, spread, -torch.inf).argmax()
    figure = plt.figure(figsize=(12, 5.6), layout="constrained")
    upper, lower = figure.subfigures(2, 1)  # pyright: ignore[reportGeneralTypeIssues]
    _draw_row(upper, model, turned[surest : surest + 1])
    _draw_row(lower, model, turned[least_sure : least_sure + 1])
    figure.savefig(path, dpi=110)


def _draw_row(figure, model: tokenstn.TokenSTN, image: Tensor) -> None:
    prediction = model(image, views=4)
    belief = model.localize(image)["rotation"]
    before, after = model.classifier(image).softmax(-1)[0], prediction.probabilities[0]
    assert prediction.views is not None and prediction.pose is not None
    incoming, ring, looks, upright, answer = figure.subfigures(1, 5, width_ratios=[1, 1.25, 1.15, 1, 1.5])
    _show(incoming.subplots(), image[0, 0], "what came in")

    axes = ring.subplots(subplot_kw={"projection": "polar"})
    angles = torch.linspace(-math.pi, math.pi, 721)
    axes.fill(angles, belief.log_prob(angles.expand(1, -1))[0].exp(), color=BLUE, alpha=0.4, linewidth=0)
    axes.plot([prediction.pose.rotation[0]] * 2, [0, axes.get_ylim()[1]], color=ORANGE, linewidth=2)
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_yticks([])
    axes.set_xticks([math.radians(a) for a in range(0, 360, 90)], ["0°", "90°", "180°", "270°"], color=GREY)
    best = prediction.pose.rotation
    elsewhere = belief.log_prob(angles.expand(1, -1)).exp()[wrap_angle(angles - best).abs()[None] > 1].sum() / 720
    share = f"{2 * math.pi * elsewhere.item():.0%} of it at other angles"
    axes.set_title(f"belief: {math.degrees(best.item()) % 360:.0f}° clockwise,\n{share}", fontsize=10)

    rectified = warp(image, prediction.views.matrices, padding="zeros")[0, :, 0]
    grid = looks.subplots(2, 2)
    for axes, view, weight in zip(grid.flat, rectified, prediction.views.weights[0], strict=True):
        _show(axes, view, f"{weight:.0%}", size=8)
    looks.suptitle("views and their weights", fontsize=10)
    _show(upright.subplots(), rectified[0], "rectified")

    axes = answer.subplots()
    classes = torch.arange(len(before))
    axes.barh(classes - 0.2, before, 0.4, color=GREY, label="alone")
    axes.barh(classes + 0.2, after, 0.4, color=BLUE, label="rectified")
    axes.set_yticks(classes)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 1], ["0", "1"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("the classifier's answer", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="best")


def _show(axes, image: Tensor, title: str, size: int = 10) -> None:
    axes.imshow(image.clamp(0, 1), cmap="gray_r", vmin=0, vmax=1)
    axes.set_title(title, fontsize=size)
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_color(GREY)
