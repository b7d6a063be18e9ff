"""Which model a person means: a run or model folder, an exported file, a timm name with its weights, or a module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import timm
import torch
from torch import nn

import tokenstn
from tokenstn.data import ImageTable
from tokenstn.models import TokenSTN
from tokenstn.models.folder import ONNX
from tokenstn.models.pretrained import fetched
from tokenstn.system.documents import read_yaml
from tokenstn.verbs.sources import ClassifierSource
from tokenstn.verbs.typed import called

if TYPE_CHECKING:
    from rich.console import Console


# in a run folder: the model, a rectifier that broke more than it fixed, its figures, and by what its images were split
MODEL, RECTIFIED, METRICS, IMAGES = "model", "rectified", "metrics.json", "images.sha256"


@dataclass(frozen=True)
class ModelPlace:
    """Where a model is, before it is loaded.

    name: as typed. folder: the model folder or the exported file, None for a timm name or a module. run: the run folder
    that was typed, if any. origin: the run that it comes from, which is also known for a folder inside of one.
    """

    name: str
    folder: Path | None = None
    run: Path | None = None
    origin: Path | None = None

    @property
    def classifier(self) -> str:
        """What ``tokenstn train --classifier`` takes."""
        return self.name if self.folder is None else str(self.folder)

    @property
    def seed(self) -> int | None:
        """Of the run that it comes from, which decided what was kept from training; None where that is not known."""
        return None if self.origin is None else _seed_of(self.origin)

    @property
    def split_digest(self) -> str | None:
        """Of the images of the run that it comes from, as ``data.splits`` has it; None where that is not known."""
        if self.origin is None or not (self.origin / IMAGES).is_file():
            return None
        return (self.origin / IMAGES).read_text(encoding="ascii", errors="replace").strip()


def place_of(model: ClassifierSource) -> ModelPlace:
    """Find a model by what was typed, and refuse what is none, before anything else is done."""
    if isinstance(model, nn.Module):
        return ModelPlace(type(model.classifier if isinstance(model, TokenSTN) else model).__name__)
    name, path = called(model), Path(model)
    if path.suffix.lower() == ONNX and not path.is_dir():
        if not path.is_file():
            raise ValueError(f"{name}: there is no such file; tokenstn export writes one")
        return ModelPlace(name, path)
    if path.is_dir():
        if (path / MODEL / "config.json").is_file():
            return ModelPlace(name, path / MODEL, path, path)
        if (path / "checkpoints").is_dir() or (path / "config.yaml").is_file():
            raise ValueError(f"{name} holds a run that was not finished: it has no model/; go on with --resume=true")
        if (path / "bundle.json").is_file():
            raise ValueError(f"{name} holds an exported model: name the file, {path / 'model.onnx'}")
        if not (path / "config.json").is_file():
            raise ValueError(f"{name} is neither a run folder (with model/) nor a model folder (with config.json)")
        return ModelPlace(name, path, origin=run_around(path))
    if path.exists():
        raise ValueError(
            f"{name} is a file, and a model is a folder: turn a checkpoint into one with tokenstn convert {name} --arch"
        )
    if not timm.is_model(name) and path.name != name:
        raise ValueError(f"{name}: there is no such folder; tokenstn train and tokenstn convert make one")
    if not timm.is_model(name):
        raise ValueError(f"{name}: there is no such folder, and timm has no such model; timm.list_models() names them")
    if not timm.is_model_pretrained(name):
        raise ValueError(f"timm has no weights for {name}, and without them its answers are noise: give a model folder")
    return ModelPlace(name)


def load_model(model: ClassifierSource, place: ModelPlace, table: ImageTable, labelled: bool, out: Console) -> TokenSTN:
    """The model with its rectifier, if it has one; a bare classifier has no primitives."""
    if isinstance(model, TokenSTN):
        return model.eval()
    if isinstance(model, nn.Module):
        classes = table.classes if labelled and table.classes else None
        return TokenSTN(model, primitives=(), classes=classes, multi_label=labelled and table.multi_label).eval()
    if place.folder is not None:
        return tokenstn.load(place.folder)
    return TokenSTN(_fetched(place.name, table if labelled else None, out), primitives=()).eval()


@torch.no_grad()
def outputs_of(model: TokenSTN) -> int:
    """How many classes the classifier tells apart, from its answer to a blank image."""
    mean = () if model.preprocessing is None else model.preprocessing.mean
    channels = model.backbone.channels or len(mean) or 3
    blank = torch.zeros(1, channels, *model.backbone.input_size, device=model.device)
    return model.eval().classify(blank, {}).probabilities.shape[1]


def require_outputs(name: str, outputs: int, table: ImageTable) -> None:
    """Refuse labels of other classes than the classifier's."""
    if table.classes and outputs != len(table.classes):
        raise ValueError(
            f"{name} tells {outputs:,} classes apart, {table.name} has {len(table.classes):,}: accuracy means nothing "
            "there; take a classifier that was trained on these classes, or measure whether it agrees with itself, "
            "which needs no labels: --labels=false"
        )


def _fetched(name: str, labelled: ImageTable | None, out: Console) -> nn.Module:
    settings = timm.get_pretrained_cfg(name)
    classes = 0 if settings is None else settings.num_classes
    if not classes:
        raise ValueError(f"{name} has weights but no classes: it describes images and does not classify them")
    if labelled is not None:
        require_outputs(name, classes, labelled)  # before anything is fetched
    out.print(f"fetching    the weights of {name}", markup=False)
    return fetched(
        name,
        "connect to the internet once, or give a model folder instead of the name; "
        f"tokenstn convert FILE --arch {name} --out FOLDER makes one from a file of weights",
    )


def run_around(folder: Path) -> Path | None:
    """The run that left a model folder, as its model or as a rectifier that it did not take; None for any other."""
    run = folder.absolute().parent
    # a config.yaml alone may be anyone's
    ours = (run / "config.yaml").is_file() and any((run / sign).exists() for sign in (IMAGES, "checkpoints", METRICS))
    return run if folder.name in (MODEL, RECTIFIED) and ours else None


def _seed_of(run: Path) -> int | None:
    try:
        return int(read_yaml(run / "config.yaml")["seed"])
    except (OSError, ValueError, LookupError, TypeError, OverflowError):
        return None
