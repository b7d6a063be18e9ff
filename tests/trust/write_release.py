"""Small models as the present release writes them, with their answers, for later releases to read.

    python -m tests.trust.write_release

makes ``tests/trust/releases/VERSION/`` once; what is there is never written again. Every NAME.zip is a model folder (or
an exported file) as it was saved, NAME.safetensors holds images and what the release answered. The weights are not
trained: they repeat a few thousand numbers, so that half a million of them take some fifty kilobytes in an archive.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import timm
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import tokenstn
from tokenstn import Preprocessing, TokenSTN

RELEASES = Path(__file__).with_name("releases")
VIEWS = (1, 3, "auto")
PERIOD = 4099  # numbers until the weights repeat
SIZE = 16  # pixels


def classifier(width: int = 24, classes: int = 4) -> nn.Module:
    return timm.create_model(
        "vit_tiny_patch16_224", img_size=SIZE, patch_size=4, embed_dim=width, depth=2, num_heads=3, mlp_ratio=2.0,
        num_classes=classes, in_chans=1,
    )  # fmt: skip


def with_numbers(model: TokenSTN) -> TokenSTN:
    """Numbers that are not zero, not alike, and the same on every machine."""
    numbers = torch.rand(PERIOD, generator=torch.Generator().manual_seed(0)) - 0.5
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            share = 0.2 if name.startswith("localizer.") and ".rotation.2." not in name else 1.0  # an angle stands out
            if "norm" in name and name.endswith("weight"):
                continue  # ones
            repeated = numbers.repeat(parameter.numel() // PERIOD + 1)[: parameter.numel()]
            parameter.copy_((share * repeated).view_as(parameter))
    return model.eval()


def rectifier() -> TokenSTN:
    """All five primitives, circular and Gaussian, with both flags and class names of several scripts."""
    from tests.models.flags import some_thresholds

    return with_numbers(
        TokenSTN(
            classifier(),
            primitives=("rotation", "scale", "shear", "translation", "reflection"),
            preprocessing=Preprocessing((SIZE, SIZE), (0.4,), (0.3,), "pad", 0.9, "bilinear"),
            classes=("weiß", "猫", "a b", "<script>"),
            thresholds=some_thresholds(pose_threshold=0.825),
        )
    )


def transferred() -> TokenSTN:
    """A rectifier with Student posteriors and relative poses, in front of a classifier that it was not trained with."""
    donor = TokenSTN(
        classifier(), primitives=("rotation", "shear"), posterior="student", shared=1, poses="relative",
        localization_size=(8, 16), preprocessing=Preprocessing((SIZE, SIZE), (0.5,), (0.5,)),
    )  # fmt: skip
    return with_numbers(
        TokenSTN(classifier(36, 3), rectifier=donor, preprocessing=Preprocessing((SIZE, SIZE), (0.1,), (0.2,)))
    )


def bare() -> TokenSTN:
    """A classifier alone, several labels at once."""
    return with_numbers(TokenSTN(classifier(), primitives=(), multi_label=True))


MODELS: dict[str, Callable[[], TokenSTN]] = {"rectifier": rectifier, "transferred": transferred, "bare": bare}


def some_images() -> Tensor:
    """``(4, 1, 16, 16)``: bars, a wedge, noise and a ring, away from each other."""
    noise = torch.rand(SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    ramp = torch.linspace(-1, 1, SIZE)
    bars = (torch.arange(SIZE) % 5 < 2).float().expand(SIZE, SIZE)
    ring = -2 * torch.cos(4 * torch.hypot(ramp[:, None] - 0.3, ramp))
    return torch.stack([2 * bars - 1, ramp[:, None] * ramp + ramp, 3 * noise - 1.5, ring])[:, None]


def answers(model: TokenSTN, images: Tensor, views: tuple[int | str, ...] = VIEWS) -> dict[str, Tensor]:
    """Everything that a prediction says, by the call and the name."""
    found: dict[str, Tensor] = {}
    for number in views:
        with torch.no_grad():
            p = model(images, views=number)
        values = {
            "probabilities": p.probabilities,
            "rectified": p.rectified,
            "matrix": p.pose.matrix if p.pose is not None else None,
            "view_matrices": p.views.matrices if p.views is not None else None,
            "view_weights": p.views.weights if p.views is not None else None,
            "pose_ambiguous": p.pose_ambiguous,
            "class_uncertain": p.class_uncertain,
            **{f"entropy_{name}": value for name, value in (p.entropy or {}).items()},
            **{f"spread_{name}": value for name, value in (p.spread or {}).items()},
        }
        found |= {f"{number} {name}": value.clone() for name, value in values.items() if value is not None}
    return found


def write(folder: Path) -> None:
    images = some_images()
    for name, make in MODELS.items():
        model = make()
        with tempfile.TemporaryDirectory() as made:
            model.save_pretrained(made)
            pack([path for path in sorted(Path(made).iterdir()) if path.suffix != ".md"], folder / f"{name}.zip")
        save_file({"images": images, **answers(model, images)}, folder / f"{name}.safetensors")
    with tempfile.TemporaryDirectory() as made:
        rectifier().save_pretrained(f"{made}/model")
        tokenstn.export(f"{made}/model", out=f"{made}/bundle", views=2, progress=False)
        exported = Path(made, "bundle", "model.onnx")
        pack([exported], folder / "exported.zip")
        found = answers(tokenstn.load(exported), images, views=(2,))
        save_file({"images": images, **found}, folder / "exported.safetensors")


def pack(files: list[Path], archive: Path) -> None:
    with zipfile.ZipFile(archive, "x", zipfile.ZIP_LZMA) as packed:
        for path in files:
            packed.write(path, path.name)


if __name__ == "__main__":
    place = RELEASES / tokenstn.__version__
    if place.exists():
        sys.exit(f"{place} is there already: what a release wrote is never written again")
    place.mkdir(parents=True)
    write(place)
