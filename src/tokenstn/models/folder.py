"""Model folders: ``config.json`` says how to build the model, ``model.safetensors`` holds its weights. No pickle.

A folder is enough to rebuild the model without the code that trained it. Classifiers of timm and torchvision are kept
by name and arguments; any other class has to be given again: ``load(folder, classifier=…)``.
"""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import nn

import tokenstn
from tokenstn.geometry import PRIMITIVES, OneSidedScale, Primitive
from tokenstn.models.backbone import Backbone
from tokenstn.models.blueprint import Blueprint
from tokenstn.models.call_settings import AutoViews
from tokenstn.models.card import run_metrics
from tokenstn.models.keys import KeyReport
from tokenstn.models.preprocessing import Preprocessing
from tokenstn.models.schema import problem_of
from tokenstn.models.thresholds import Thresholds
from tokenstn.models.tokenstn import TokenSTN

FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
ONNX = ".onnx"

_KINDS = {**PRIMITIVES, "one-sided scale": OneSidedScale}
_KIND_NAMES = {kind: name for name, kind in _KINDS.items()}


def save(model: TokenSTN, folder: str | PathLike[str]) -> None:
    """Write a model folder, replacing one that is there. A config never stands beside weights that are not its own."""
    path = Path(folder)
    config = _config_of(model)
    problem = problem_of(config)
    if problem is not None:
        raise ValueError(f"this model cannot be saved: {problem}")
    weights = weights_of(model)
    path.mkdir(parents=True, exist_ok=True)
    (path / f".{WEIGHTS}").write_bytes(weights)  # save_file would make a file that only its owner can read
    (path / f".{CONFIG}").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (path / CONFIG).unlink(missing_ok=True)
    for name in (WEIGHTS, CONFIG):
        os.replace(path / f".{name}", path / name)


def weights_of(model: TokenSTN) -> bytes:
    """The content of ``model.safetensors``."""
    # copies, because safetensors refuses tensors that share memory
    return to_bytes({key: value.detach().cpu().clone().contiguous() for key, value in model.state_dict().items()})


def load(folder: str | PathLike[str], classifier: nn.Module | None = None) -> TokenSTN:
    """The model of a folder or of an exported file, on the CPU, in evaluation mode.

    Args:
        folder: what ``save_pretrained`` or ``convert`` wrote, or the ``model.onnx`` of ``tokenstn export``.
        classifier: an object of the class that was saved, where it is not one of timm's or torchvision's. Its weights
            are replaced by those of the folder.
    """
    path = Path(folder)
    if path.suffix.lower() == ONNX:
        if classifier is not None:
            raise ValueError(f"{path} holds its classifier: leave classifier out")
        from tokenstn.models.onnx import OnnxModel

        return OnnxModel(path)
    config = _read_config(path)
    if classifier is None and "class" in config["classifier"]:
        raise ValueError(
            f"{path} holds a classifier of the class {config['classifier']['class']}, which is not rebuilt from a "
            "file: make one and pass it, tokenstn.load(folder, classifier=…)"
        )
    try:
        model = _build(config, classifier)
    except (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{path / CONFIG} describes a model that cannot be built: {error}") from error
    _load_weights(model, path)
    model.run_metrics = run_metrics(path)
    return model.eval()


def _build(config: dict[str, Any], classifier: nn.Module | None) -> TokenSTN:
    """The untrained model that a config describes."""
    if classifier is None:
        classifier = Blueprint(**config["classifier"]).build()
    settings: dict[str, Any] = {
        "input_size": tuple(config["input_size"]),
        "multi_label": config["multi_label"],
        "auto": AutoViews(**config["auto"]),
        "preprocessing": _maybe(Preprocessing, config["preprocessing"]),
        "classes": config["classes"],
        "thresholds": None if config["thresholds"] is None else Thresholds.from_json(config["thresholds"]),
    }
    rectifying: dict[str, Any] = {
        "primitives": [primitive_from(item) for item in config["primitives"]],
        "posterior": config["posterior"],
        "shared": config["shared"],
        "localization_size": _size_from(config["localization_size"]),
        "poses": config["poses"],
    }
    if config["encoder"] is None:
        return TokenSTN(classifier, **rectifying, **settings)
    return TokenSTN(classifier, rectifier=_donor(config["encoder"], rectifying), **settings)


def _config_of(model: TokenSTN) -> dict[str, Any]:
    backbone, encoder = model.backbone, model.encoder
    blueprint = backbone.blueprint or backbone.find_blueprint()
    if blueprint is None:
        kind = f"{type(backbone.classifier).__module__}.{type(backbone.classifier).__qualname__}"
        warnings.warn(
            f"{kind} cannot be rebuilt from a timm or torchvision name: loading this folder needs "
            "tokenstn.load(folder, classifier=…) with an object of that class",
            stacklevel=4,
        )
        classifier: dict[str, Any] = {"class": kind}
    else:
        classifier = asdict(blueprint)
    return {
        "format": FORMAT,
        "tokenstn": tokenstn.__version__,
        "classifier": classifier,
        "input_size": list(backbone.input_size),
        "primitives": [primitive_to(primitive) for primitive in model.primitives],
        "posterior": model.posterior,
        "shared": model.shared if model.primitives else None,
        "localization_size": model.localization_size,
        "encoder": None if encoder is None else _encoder_config(encoder),
        "multi_label": model.multi_label,
        "auto": asdict(model.auto),
        "poses": model.poses,
        "preprocessing": None if model.preprocessing is None else asdict(model.preprocessing),
        "classes": None if model.classes is None else list(model.classes),
        "thresholds": None if model.thresholds is None else model.thresholds.to_json(),
    }


def _encoder_config(encoder: Backbone) -> dict[str, Any]:
    if encoder.blueprint is None:
        raise ValueError(
            f"the rectifier reads images through a {type(encoder.classifier).__name__}, which cannot be rebuilt from a "
            "timm or torchvision name, so this model cannot be saved; train the rectifier with such a classifier"
        )
    return {
        "classifier": asdict(encoder.blueprint),
        "input_size": list(encoder.input_size),
        "preprocessing": None if encoder.preprocessing is None else asdict(encoder.preprocessing),
    }


def _donor(encoder: dict[str, Any], rectifying: dict[str, Any]) -> TokenSTN:
    """An untrained stand-in for the model that the rectifier came from; its weights are in the folder."""
    blueprint = Blueprint(**encoder["classifier"])
    donor = TokenSTN(
        blueprint.build(),
        **rectifying,
        input_size=tuple(encoder["input_size"]),
        preprocessing=_maybe(Preprocessing, encoder["preprocessing"]),
    )
    donor.backbone.blueprint = blueprint
    return donor


def _read_config(path: Path) -> dict[str, Any]:
    if not (path / CONFIG).is_file():
        raise FileNotFoundError(f"{path} is not a model folder: it has no {CONFIG}")
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path / CONFIG} is not valid JSON: {error}") from error
    found = config.get("format") if isinstance(config, dict) else None
    if not isinstance(found, int):
        raise ValueError(f"{path / CONFIG} has no format number: it was not written by tokenstn")
    if found > FORMAT:
        raise ValueError(
            f"{path} has format {found}, written by tokenstn {config.get('tokenstn')}; this version, "
            f"{tokenstn.__version__}, reads up to format {FORMAT}: upgrade tokenstn"
        )
    problem = problem_of(config)
    if problem is not None:
        raise ValueError(f"{path / CONFIG} does not fit format {found}: {problem}")
    return config


def _load_weights(model: TokenSTN, path: Path) -> None:
    try:
        weights = load_file(path / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path / WEIGHTS} cannot be read: {error}") from error
    report = KeyReport.compare(model.state_dict(), weights)
    if not report.fits:
        raise ValueError(f"the weights in {path} do not fit the model that its {CONFIG} describes: {report}")
    model.load_state_dict(weights)


def primitive_to(primitive: Primitive) -> dict[str, Any]:
    """A primitive as JSON keeps it."""
    if type(primitive) not in _KIND_NAMES:
        raise ValueError(f"{primitive} cannot be saved: a folder keeps {', '.join(_KINDS)}")
    return {"kind": _KIND_NAMES[type(primitive)], "bound": float(primitive.bound)}


def primitive_from(item: dict[str, Any]) -> Primitive:
    """What :func:`primitive_to` gave."""
    if item["kind"] not in _KINDS:
        raise ValueError(f"unknown primitive {item['kind']!r}; there are {', '.join(_KINDS)}")
    return _KINDS[item["kind"]](bound=item["bound"])


def _size_from(size: int | list[int] | None) -> int | tuple[int, int] | None:
    return (size[0], size[1]) if isinstance(size, list) else size


def _maybe(kind: type, settings: dict[str, Any] | None) -> Any:
    return None if settings is None else kind(**settings)
