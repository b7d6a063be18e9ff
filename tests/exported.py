"""One small exported model that tests of several rooms look at, made once: digits, four views, both flags."""

import atexit
import functools
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

import tokenstn
from tokenstn.data import fit, open_images, to_float
from tokenstn.inference.export import Exported, export_model
from tokenstn.models import Thresholds
from tokenstn.models.onnx import OnnxModel

from .models.classifiers import shake
from .models.flags import at_medians
from .verbs.folders import GREY, few_digits, model_folder

VIEWS = 4


@dataclass(frozen=True)
class Made:
    """folder: of the model. digits: a data set that it can be evaluated on. result: of the export."""

    folder: Path
    digits: Path
    result: Exported

    @property
    def bundle(self) -> Path:
        return self.result.folder

    @property
    def file(self) -> Path:
        return self.bundle / "model.onnx"


@functools.cache
def made() -> Made:
    root = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    folder = gentle_folder(root / "model", ("rotation", "scale"))
    result = export_model(tokenstn.load(folder), root / "bundle", views=VIEWS, calibrate=half_of_them)
    return Made(folder, few_digits(root), result)


@torch.no_grad()
def gentle_folder(folder: Path, primitives: tuple[str, ...]) -> Path:
    """A model of digits whose poses differ. Its head is least squares, shrunk: else it amplifies every rounding."""
    model = tokenstn.load(model_folder(folder, primitives=primitives, localization_size=16))
    if model.localizer is not None:
        shake(model.localizer, 0.5)
    for parameter in model.classifier.head.parameters():
        parameter.mul_(0.1)
    model.save_pretrained(folder)
    return folder


@torch.no_grad()
def half_of_them(exported: OnnxModel) -> Thresholds:
    """Thresholds that flag every second one of some images."""
    return at_medians(exported(some_images()), VIEWS, execution="onnx")


def some_images(count: int = 40) -> torch.Tensor:
    """Digits, normalised, of the size that the model takes, ``(count, 1, 16, 16)``."""
    pixels = open_images("digits").items[400 : 400 + count]
    return to_float(torch.stack([fit(image, GREY.size) for image in pixels]), GREY.mean, GREY.std)
