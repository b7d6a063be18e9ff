"""The same model, run in every way there is, against float32 in eager mode on the CPU: one row for each way.

The model is the small one for digits inside the package, which was trained; the images are digits that it was not
trained on, each at a random angle. An answer depends on the best pose, and where two poses are equally likely a last
digit may decide which that is: so every row counts images, and says how many may differ by more than the tolerance.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from record import Drill
from torch import Tensor

import tokenstn
from tokenstn.apps.embedded import embedded_model
from tokenstn.data import read_mnist_mini, to_float
from tokenstn.geometry import Rotation, invert, warp, wrap_angle
from tokenstn.models import Prediction, TokenSTN

IMAGES, VIEWS = 1000, 4
Way = Callable[[Tensor], Prediction]


@dataclass(frozen=True)
class Tolerance:
    """probability: the largest difference of any. degrees: of the best angle. share: of images that may differ more."""

    probability: float
    degrees: float
    share: float

    def __str__(self) -> str:
        exception = f", but for {self.share:.1%} of the images" if self.share else ""
        return f"probabilities within {self.probability:g} and angles within {self.degrees:g}°{exception}"


SINGLE = Tolerance(1e-4, 0.1, 0.0)  # float32: other kernels, another order of sums
TENSOR_CORES = Tolerance(0.01, 1.0, 0.01)  # products of 10 bits: TF32
HALF = Tolerance(0.05, 3.0, 0.01)  # products of 8 bits: bfloat16


def parity(drill: Drill) -> None:
    """Every way, as far as this machine has it."""
    model, images = tokenstn.load(embedded_model()), posed_digits()
    with torch.no_grad():
        wanted = model(images, views=VIEWS)
    _row(drill, "CPU, float32, compiled", SINGLE, wanted, images, compiled(model))
    _row(drill, "CPU, bfloat16 (autocast)", HALF, wanted, images, autocast(model, "cpu"))
    with tempfile.TemporaryDirectory() as folder:
        _row(drill, "exported to ONNX, ONNX Runtime on the CPU", SINGLE, wanted, images, exported(model, Path(folder)))
    ways: dict[str, tuple[Tolerance, Callable[[TokenSTN], Way]]] = {
        "CUDA, float32": (SINGLE, lambda there: lambda x: there(x, views=VIEWS)),
        "CUDA, float32, recorded as a graph": (SINGLE, recorded),
        "CUDA, float32, compiled": (SINGLE, compiled),
        "CUDA, TF32": (TENSOR_CORES, tensor_cores),
        "CUDA, bfloat16 (autocast)": (HALF, lambda there: autocast(there, "cuda")),
    }
    for name, (tolerance, make) in ways.items():
        if not torch.cuda.is_available():
            drill.found(f"{name}: {tolerance}", "empty here: torch sees no GPU; the same script fills it on one", True)
            continue
        there = tokenstn.load(embedded_model()).cuda()
        _row(drill, name, tolerance, wanted, images.cuda(), make(there))


def posed_digits() -> Tensor:
    """Digits at random angles, normalised for the model, ``(1000, 1, 28, 28)``."""
    digits, prepared = read_mnist_mini(), tokenstn.load(embedded_model()).preprocessing
    assert prepared is not None and isinstance(digits.items, Tensor)
    images = to_float(digits.items[digits.split("test")[:IMAGES]], prepared.mean, prepared.std)
    angles = (2 * torch.rand(len(images), generator=torch.Generator().manual_seed(0)) - 1) * math.pi
    return warp(images, invert(Rotation().matrix(angles)))


def compiled(model: TokenSTN) -> Way:
    """By torch.compile, as one graph."""
    made = torch.compile(model, fullgraph=True)
    return lambda images: made(images, views=VIEWS)


def autocast(model: TokenSTN, device: str) -> Way:
    """Matrix products in bfloat16."""

    def way(images: Tensor) -> Prediction:
        with torch.autocast(device, torch.bfloat16):
            return model(images, views=VIEWS)

    return way


def recorded(model: TokenSTN) -> Way:
    """The rectifier as one CUDA graph."""
    model.record()
    return lambda images: model(images, views=VIEWS)


def tensor_cores(model: TokenSTN) -> Way:
    """Matrix products in TF32."""

    def way(images: Tensor) -> Prediction:
        with _matmul("high"):
            return model(images, views=VIEWS)

    return way


def exported(model: TokenSTN, folder: Path) -> Way:
    """By way of ``tokenstn export``; it is run on the normalised images, as any model."""
    from tokenstn.inference.export import export_model

    export_model(model, folder / "bundle", views=VIEWS)
    return tokenstn.load(folder / "bundle" / "model.onnx")


def _row(drill: Drill, name: str, tolerance: Tolerance, wanted: Prediction, images: Tensor, way: Way) -> None:
    with torch.no_grad(), _matmul("highest") if name != "CUDA, TF32" else nullcontext():
        found = way(images)
    assert found.pose is not None and wanted.pose is not None
    gap = (found.probabilities.float().cpu() - wanted.probabilities).abs().amax(1)
    turn = wrap_angle(found.pose.rotation.float().cpu() - wanted.pose.rotation).abs().rad2deg()
    beyond = (gap > tolerance.probability) | (turn > tolerance.degrees) | ~torch.isfinite(gap)
    same = (found.probabilities.argmax(1).cpu() == wanted.probabilities.argmax(1)).sum().item()
    drill.found(
        f"{name}: {tolerance}",
        f"{len(images):,} images: probabilities differ by {gap.amax():.1e} at most, {gap.median():.1e} in the median; "
        f"angles by {turn.amax():.2g}° at most; beyond the tolerance: {beyond.sum().item()}; "
        f"same class: {same:,}",
        beyond.float().mean().item() <= tolerance.share,
    )


@contextmanager
def _matmul(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    convolutions, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, precision != "highest"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.allow_tf32 = convolutions


if __name__ == "__main__":
    with Drill("parity-cuda" if torch.cuda.is_available() else "parity", "The same answer in every way") as alone:
        parity(alone)
