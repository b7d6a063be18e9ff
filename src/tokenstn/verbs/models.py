"""Which model a person means: a run or model folder, an exported file, a timm name with its weights, or a module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import timm
import torch
from torch import nn

import tokenstn
from tokenstn.data import ImageTable
from tokenstn.models import TokenSTN
from tokenstn.models.folder import ONNX
from tokenstn.models.pretrained import fetched
from tokenstn.system.documents import read_yaml
from tokenstn.verbs.sources import ClassifierSource, ImageSource
from tokenstn.verbs.typed import called

if TYPE_CHECKING:
    from rich.console import Console


IMAGES = "images.sha256"  # of a run folder: by what its images were split


@dataclass(frozen=True)
class ModelPlace:
    """Where a model is, before it is loaded.

    name: as typed. folder: the model folder or the exported file, None for a timm name or a module. run: the run folder
    whose model it is, if any. seed: of the run that it comes from, which decided what was kept from training;
    trained_on: the images of that run, as they were typed. None where that is not known.
    """

    name: str
    folder: Path | None = None
    run: Path | None = None
    seed: int | None = None
    trained_on: str | None = None

    @property
    def classifier(self) -> str:
        """What ``tokenstn train --classifier`` takes."""
        return self.name if self.folder is None else str(self.folder)

    @property
    def split_digest(self) -> str | None:
        """Of the images of the run that it comes from; None where that is not known."""
        run = self.run or (self.folder and self.folder.absolute().parent)
        if run is None or not (run / IMAGES).is_file():
            return None
        return (run / IMAGES).read_text(encoding="ascii", errors="replace").strip()

    def has_seen(self, images: ImageSource) -> bool:
        """Whether some of these images, of a name or in a folder, are what it was trained on."""
        if self.trained_on is None or not isinstance(images, str | Path):
            return False
        return Path(images).absolute() == Path(self.trained_on).absolute()


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
        if (path / "model" / "config.json").is_file():
            return ModelPlace(name, path / "model", path, seed_of(path), _images_of(path))
        if (path / "checkpoints").is_dir() or (path / "config.yaml").is_file():
            raise ValueError(f"{name} holds a run that was not finished: it has no model/; go on with --resume=true")
        if (path / "bundle.json").is_file():
            raise ValueError(f"{name} holds an exported model: name the file, {path / 'model.onnx'}")
        if not (path / "config.json").is_file():
            raise ValueError(f"{name} is neither a run folder (with model/) nor a model folder (with config.json)")
        around = path.absolute().parent  # a run, for its model/ or rectified/
        return ModelPlace(name, path, seed=seed_of(around), trained_on=_images_of(around))
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


def seed_of(run: Path) -> int | None:
    """The seed of a run; None for a folder that is none."""
    try:
        return int(_settings_of(run)["seed"])
    except (ValueError, LookupError, TypeError, OverflowError):
        return None


def _images_of(run: Path) -> str | None:
    images = _settings_of(run).get("images")
    return images if isinstance(images, str) else None


def _settings_of(run: Path) -> dict[str, Any]:
    try:
        settings = read_yaml(run / "config.yaml")
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}
