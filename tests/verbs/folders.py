"""What the verbs are given in the tests: a few digits in a file, and small models in folders."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image
from torchvision.transforms.v2.functional import resize

import tokenstn
from tokenstn.data import open_images, to_float
from tokenstn.data.splits import split_digest
from tokenstn.models import Preprocessing

from ..models.classifiers import small_vit

DIGITS = tuple("0123456789")
GREY = Preprocessing((16, 16), (0.3,), (0.3,))


def few_digits(folder: Path, test: int = 24) -> Path:
    """Some of scikit-learn's digits with train and test splits, as MNIST comes."""
    table = open_images("digits")
    pixels, labels = table.items[:120, 0].numpy(), table.labels[:120].numpy()
    path = folder / "few.npz"
    np.savez(path, x_train=pixels[test:], y_train=labels[test:], x_test=pixels[:test], y_test=labels[:test])
    return path


def digit_photos(folder: Path, count: int, parents: bool = False) -> Path:
    """The first of these digits as PNG files, in a folder that is made."""
    folder.mkdir(parents=parents)
    for number in range(count):
        Image.fromarray(open_images("digits").items[number, 0].numpy()).save(folder / f"{number}.png")
    return folder


def model_folder(folder: Path, primitives=("rotation",), classes=DIGITS, seed: int = 0, **settings) -> Path:
    """A model for grey images of 16 pixels; its classifier has seen upright digits, its rectifier nothing."""
    torch.manual_seed(seed)
    network = small_vit(in_chans=1, img_size=16, depth=2, num_classes=len(classes)).eval()
    fit_head(network)
    model = tokenstn.TokenSTN(network, primitives, classes=classes, preprocessing=GREY, **settings)
    model.save_pretrained(folder)
    return folder


@torch.no_grad()
def fit_head(network: Any) -> None:
    """Least squares from the features of an untrained network to the classes of digits: right on most upright ones."""
    table = open_images("digits")
    images = to_float(resize(table.items[:400], list(GREY.size), antialias=True), GREY.mean, GREY.std)
    features = network.forward_head(network.forward_features(images), pre_logits=True)
    wanted = torch.nn.functional.one_hot(table.labels[:400], 10).float()[:, : network.num_classes]
    centre = features.mean(0)
    weight = torch.linalg.lstsq(features - centre, 10 * (wanted - wanted.mean(0))).solution.T
    network.head.weight.copy_(weight)
    network.head.bias.copy_(-weight @ centre)


def run_folder(folder: Path, seed: int = 0) -> Path:
    """A training run as far as an evaluation looks at it."""
    model_folder(folder / "model")
    (folder / "config.yaml").write_text(yaml.safe_dump({"images": "digits", "seed": seed}), encoding="utf-8")
    (folder / "metrics.json").write_text('{"schema": "tokenstn.run/1"}', encoding="utf-8")
    (folder / "images.sha256").write_text(split_digest(open_images("digits")), encoding="ascii")
    return folder


def blank_page(evaluation, examples, folder) -> Path:
    """Stands in for ``write_report``, whose figures take seconds, where a test is about something else."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "report.html"
    page.write_text("a report")
    return page
