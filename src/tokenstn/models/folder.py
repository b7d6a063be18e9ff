"""Model folders: ``config.json`` says how to build the model, ``model.safetensors`` holds its weights. No pickle.

A folder is enough to rebuild the model without the code that trained it. Classifiers of timm and torchvision are kept
by name and arguments; any other class has to be given again: ``load(folder, classifier=…)``.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
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
from tokenstn.models.backbone import Backbone, LocalizationSize
from tokenstn.models.blueprint import Blueprint
from tokenstn.models.call_settings import LEFT_OUT, AutoViews
from tokenstn.models.card import run_metrics
from tokenstn.models.declared import Held, require_room, require_weights
from tokenstn.models.finite import broken_weights
from tokenstn.models.keys import KeyReport
from tokenstn.models.preprocessing import Preprocessing
from tokenstn.models.schema import problem_of
from tokenstn.models.thresholds import Thresholds
from tokenstn.models.tokenstn import TokenSTN
from tokenstn.system.documents import in_short, read_json
from tokenstn.system.files import remove_unfinished, written_together

FORMAT = 1
# what folders of earlier versions leave out, and what they meant
EARLIER = {"localization_tokens": 14, "closer_size": None}
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
ONNX = ".onnx"
# what timm, torchvision and torch raise for arguments that make no sense
BUILDING_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError, OSError, RuntimeError,
    TypeError, ValueError,
)  # fmt: skip


def save(model: TokenSTN, folder: str | PathLike[str]) -> None:
    """Write a model folder, replacing one that is there. A config never stands beside weights that are not its own."""
    path = Path(folder)
    broken = broken_weights(model)
    if broken:
        raise ValueError(f"this model cannot be saved: {_in_words(broken)}; nothing was written")
    config = _config_of(model)
    problem = problem_of(config)
    if problem is not None:
        raise ValueError(f"this model cannot be saved: {problem}")
    weights = weights_of(model)
    remove_unfinished(path, deep=False)
    with written_together(path, last=CONFIG) as place:
        (place / WEIGHTS).write_bytes(weights)  # save_file would make a file that only its owner can read
        (place / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


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
    held = Held.read(path / WEIGHTS)
    try:
        model = _build(config, classifier, held)
    except BUILDING_ERRORS as error:
        raise ValueError(f"{path / CONFIG} describes a model that cannot be built: {in_short(error)}") from error
    _load_weights(model, path)
    model.run_metrics = run_metrics(path)
    return model.eval()


def _build(config: dict[str, Any], classifier: nn.Module | None, held: Held) -> TokenSTN:
    """The untrained model that a config describes, unless it is larger than the weights that are there for it."""
    if classifier is None:
        blueprint = Blueprint(**config["classifier"])
        require_weights(blueprint, held)
        classifier = blueprint.build()
    settings: dict[str, Any] = {
        "input_size": tuple(config["input_size"]),
        "multi_label": config["multi_label"],
        "auto": AutoViews(**{**LEFT_OUT, **config["auto"]}),
        "preprocessing": _maybe(Preprocessing, config["preprocessing"]),
        "classes": config["classes"],
        "thresholds": None if config["thresholds"] is None else Thresholds.from_json(config["thresholds"]),
    }
    rectifying: dict[str, Any] = {
        "primitives": [primitive_from(item) for item in config["primitives"]],
        "posterior": config["posterior"],
        "shared": config["shared"],
        "localization_size": _size_from(config["localization_size"]),
        "localization_tokens": config["localization_tokens"],
        "closer_size": _size_from(config["closer_size"]),
        "poses": config["poses"],
    }
    if config["encoder"] is None:
        return TokenSTN(classifier, **rectifying, **settings)
    return TokenSTN(classifier, rectifier=_donor(config["encoder"], rectifying, held), **settings)


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
        "localization_tokens": model.localization_tokens,
        "closer_size": model.closer_size,
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


def _donor(encoder: dict[str, Any], rectifying: dict[str, Any], held: Held) -> TokenSTN:
    """An untrained stand-in for the model that the rectifier came from; its weights are in the folder."""
    blueprint = Blueprint(**encoder["classifier"])
    require_room(blueprint, held)
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
        hint = f"; did you mean {path / 'model'}?" if (path / "model" / CONFIG).is_file() else ""
        raise FileNotFoundError(f"{path} is not a model folder: it has no {CONFIG}{hint}")
    config = read_json(path / CONFIG)
    found = config.get("format") if isinstance(config, dict) else None
    if not isinstance(found, int):
        raise ValueError(f"{path / CONFIG} has no format number: it was not written by tokenstn")
    if found > FORMAT:
        raise ValueError(
            f"{path} has format {found}, written by tokenstn {config.get('tokenstn')}; this version, "
            f"{tokenstn.__version__}, reads up to format {FORMAT}: upgrade tokenstn"
        )
    config = {**EARLIER, **config}
    problem = problem_of(config)
    if problem is not None:
        raise ValueError(f"{path / CONFIG} does not fit format {found}: {problem}")
    return config


def _load_weights(model: TokenSTN, path: Path) -> None:
    try:
        weights = load_file(path / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path / WEIGHTS} cannot be read: {in_short(error)}") from error
    report = KeyReport.compare(model.state_dict(), weights)
    if not report.fits:
        raise ValueError(f"the weights in {path} do not fit the model that its {CONFIG} describes: {report}")
    model.load_state_dict(weights)
    broken = broken_weights(model)
    if broken:
        raise ValueError(f"the model in {path} is of no use: {_in_words(broken)}; take an earlier one")


def _in_words(broken: list[str]) -> str:
    others = f" and {len(broken) - 1} others" if len(broken) > 1 else ""
    return f"{broken[0]}{others} hold values that are not finite"


def primitive_to(primitive: Primitive) -> dict[str, Any]:
    """A primitive as JSON keeps it."""
    names = {kind: name for name, kind in _kinds().items()}
    if type(primitive) not in names:
        raise ValueError(f"{primitive} cannot be saved: a folder keeps {', '.join(names.values())}")
    return {"kind": names[type(primitive)], "bound": float(primitive.bound)}


def primitive_from(item: dict[str, Any]) -> Primitive:
    """What :func:`primitive_to` gave."""
    kinds = _kinds()
    if item["kind"] not in kinds:
        raise ValueError(f"unknown primitive {item['kind']!r}; there are {', '.join(kinds)}")
    return kinds[item["kind"]](bound=item["bound"])


def _kinds() -> dict[str, Callable[..., Primitive]]:
    """Every primitive by the name that folders keep; looked up each time, as one may be added at any time."""
    return {**PRIMITIVES, "one-sided scale": OneSidedScale}


def _size_from(size: float | list[int] | None) -> LocalizationSize:
    return (size[0], size[1]) if isinstance(size, list) else size


def _maybe(kind: type, settings: dict[str, Any] | None) -> Any:
    return None if settings is None else kind(**settings)
