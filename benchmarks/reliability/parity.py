"""The same model, run in every way there is, against float32 in eager mode on the CPU: one row for each way.

The model is the small one for digits inside the package, which was trained; the images are digits that it was not
trained on, each at a random angle. An answer depends on the best pose, and where two poses are equally likely a last
digit may decide which that is: so every row counts images, and says how many may differ by more than the tolerance.

The rows for the CPU are part of ``wrong_numbers.py``; those for CUDA are measured where there is one, and the page on
reliability has both:

    python benchmarks/reliability/parity.py --device cuda --out results/reliability/parity_cuda.json
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from nothing_to_see import broken_pixels
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


Ways = dict[str, tuple[Tolerance, Callable[[TokenSTN], Way]]]
SINGLE = Tolerance(1e-4, 0.1, 0.0)  # float32: other kernels, another order of sums
TENSOR_CORES = Tolerance(0.01, 1.0, 0.01)  # products of 10 bits: TF32
HALF = Tolerance(0.05, 3.0, 0.01)  # products of 8 bits: bfloat16


def parity(drill: Drill, device: str) -> None:
    """Every way that a device has: ``cpu`` or ``cuda``."""
    model, images = tokenstn.load(embedded_model()), posed_digits()
    with torch.no_grad():
        wanted = model(images, views=VIEWS)
    with tempfile.TemporaryDirectory() as folder:
        for name, (tolerance, make) in WAYS[device](Path(folder)).items():
            there = tokenstn.load(embedded_model()).to(device)
            _row(drill, name, tolerance, wanted, images.to(device), lambda make=make, there=there: make(there))


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


def _on_the_cpu(folder: Path) -> Ways:
    return {
        "CPU, float32, compiled": (SINGLE, compiled),
        "CPU, bfloat16 (autocast)": (HALF, lambda model: autocast(model, "cpu")),
        "exported to ONNX, ONNX Runtime on the CPU": (SINGLE, lambda model: exported(model, folder)),
    }


def _on_a_gpu(_: Path) -> Ways:
    return {
        "CUDA, float32": (SINGLE, lambda model: lambda images: model(images, views=VIEWS)),
        "CUDA, float32, recorded as a graph": (SINGLE, recorded),
        "CUDA, float32, compiled": (SINGLE, compiled),
        "CUDA, TF32": (TENSOR_CORES, tensor_cores),
        "CUDA, bfloat16 (autocast)": (HALF, lambda model: autocast(model, "cuda")),
    }


WAYS: dict[str, Callable[[Path], Ways]] = {"cpu": _on_the_cpu, "cuda": _on_a_gpu}


def _row(
    drill: Drill, name: str, tolerance: Tolerance, wanted: Prediction, images: Tensor, make: Callable[[], Way]
) -> None:
    try:
        with torch.no_grad(), _matmul("highest"):
            found = make()(images)
    except Exception as error:  # one way that does not run leaves the others
        drill.found(f"{name}: {tolerance}", f"it does not run: {error!r:.160}", False)
        return
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


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--device", choices=WAYS, default="cpu")
    parser.add_argument("--out", type=Path, help="the file to write; without it results/reliability/parity_DEVICE.json")
    given = parser.parse_args()
    with Drill(
        f"parity_{given.device}", f"The same answer in every way: {given.device.upper()}", path=given.out
    ) as drill:
        parity(drill, given.device)
        broken_pixels(drill, given.device)
        if given.device == "cuda":
            _twice(drill)


def _twice(drill: Drill) -> None:
    """Training with the same seed; where a library for it is missing, the row is left out, and the others are kept."""
    try:
        from same_seed import same_seed_on_a_gpu

        with tempfile.TemporaryDirectory() as folder:
            same_seed_on_a_gpu(drill, Path(folder))
    except ImportError as error:
        print(f"training was not tried: {error}")
    except Exception as error:
        drill.found("training with the same seed on a GPU", f"it does not run: {error!r:.160}", False)


if __name__ == "__main__":
    main()
