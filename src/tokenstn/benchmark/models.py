"""From a task's config to a model: the classifier, the method around it, and their weights in the cache."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from tokenstn.baselines import create
from tokenstn.baselines.registry import options_of_method
from tokenstn.benchmark.cache import WEIGHTS
from tokenstn.benchmark.settings import SIZES, options_of
from tokenstn.data import ImageTable
from tokenstn.evaluation.method import Method
from tokenstn.models import Preprocessing, TokenSTN
from tokenstn.models.bare import without_rectifier
from tokenstn.models.blueprint import Blueprint, library_of
from tokenstn.models.folder import load
from tokenstn.models.pretrained import fetched, from_weights, size_argument
from tokenstn.models.reading import usual_reading
from tokenstn.system.files import written_whole
from tokenstn.training.small_vit import small_vit

OF_CLASSIFIER = "backbone."  # what a method's weights begin with where they are the classifier's
READS_AS_USUAL = ("tokenstn", "tokenstn-matrix")  # as ``tokenstn train`` has it; the paper's read all of the image
GREY = 0.5  # mean and spread of pixels, where nothing is known about them


def build_classifier(config: dict[str, Any], files: dict[str, str], table: ImageTable) -> TokenSTN:
    """The bare classifier before any training here; ``config`` is a ``ClassifierSpec`` as JSON."""
    if config["folder"] is not None:
        model = without_rectifier(load(files["folder"]))
        if model.classes is not None and model.classes != table.classes:
            raise ValueError(f"{files['folder']} knows other classes than {table.name}")
        model.classes = table.classes
        return model
    arch, size = config["arch"], config["size"]
    if arch == "small-vit":
        return small_vit(table, **config["arguments"])
    network = _network(config, files, table)
    side = None if size is None else (size, size)
    return TokenSTN(
        network,
        primitives=(),
        input_size=side,
        classes=table.classes,
        multi_label=table.multi_label,
        preprocessing=_preprocessing(config["preprocessing"], network, side, table),
    )


def build_method(config: dict[str, Any], bare: TokenSTN) -> Method:
    """A method around the classifier of a bare model; it is untrained."""
    name = config["method"]
    options = options_of(name, config["options"])
    if isinstance(options.get("localization_size"), str):
        options["localization_size"] = round(SIZES[options["localization_size"]] * min(bare.backbone.input_size))
    if name in READS_AS_USUAL:
        known = options_of_method(name)
        usual = asdict(usual_reading(bare.classifier, bare.backbone.input_size))
        if "localization_size" in options:  # and so it is said at which size images in doubt are read again
            del usual["closer_size"]
        options = {option: value for option, value in usual.items() if option in known} | options
    return create(
        name,
        bare.classifier,
        **options,
        input_size=bare.backbone.input_size,
        multi_label=bare.multi_label,
        preprocessing=bare.preprocessing,
        classes=bare.classes,
    )


def save_weights(model: nn.Module, folder: Path, without: str | None = None) -> str:
    """Write weights.safetensors, leaving out what begins with ``without``; the SHA-256 of the file."""
    tensors = {
        key: value.detach().cpu().clone().contiguous()
        for key, value in model.state_dict().items()
        if without is None or not key.startswith(without)
    }
    content = to_bytes(tensors)
    with written_whole(folder / WEIGHTS) as beside:
        beside.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def load_weights(model: nn.Module, folder: Path, without: str | None = None) -> None:
    """Read what ``save_weights`` wrote; every weight must be there but for those that were left out."""
    tensors: dict[str, Tensor] = load_file(folder / WEIGHTS)
    found = model.load_state_dict(tensors, strict=False)
    missing = [key for key in found.missing_keys if without is None or not key.startswith(without)]
    if missing or found.unexpected_keys:
        wrong = [*missing, *found.unexpected_keys][0]
        raise ValueError(f"{folder / WEIGHTS} does not fit the model, see {wrong}: remove the folder and start again")


def file_checksum(path: str | Path) -> str:
    """SHA-256 of a file; of a folder's files one after the other."""
    digest = hashlib.sha256()
    path = Path(path)
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _network(config: dict[str, Any], files: dict[str, str], table: ImageTable) -> nn.Module:
    arch, size, arguments = config["arch"], config["size"], dict(config["arguments"])
    if config["weights"] is not None:
        return from_weights(arch, files["weights"], len(table.classes), size, table.channels, **arguments)
    library = library_of(arch)
    if library is None:
        raise ValueError(f"arch {arch!r} is no model of timm, torchvision or this library")
    arguments |= {"num_classes": len(table.classes)}
    if library != "torchvision":
        arguments |= {"in_chans": table.channels}
    if library == "timm":
        arguments |= size_argument(arch, size)
    if config["pretrained"]:
        return fetched(arch, "connect to the internet once, or name a file under classifier.weights", **arguments)
    return Blueprint(library, arch, arguments).build()


def _preprocessing(
    given: dict[str, Any], network: nn.Module, side: tuple[int, int] | None, table: ImageTable
) -> Preprocessing | None:
    """As the experiment says; the network's own where it says nothing, plain grey where nobody knows."""
    bare = TokenSTN(network, primitives=(), input_size=side)
    own = bare.preprocessing
    if own is None:
        grey = (GREY,) * table.channels
        own = Preprocessing(bare.backbone.input_size, grey, grey)
    if not given:
        return own
    settings = {
        "size": own.size, "mean": own.mean, "std": own.std, "resize": own.resize, "crop_share": own.crop_share,
        "interpolation": own.interpolation, **given,
    }  # fmt: skip
    if settings["mean"] == "data":
        if not isinstance(table.items, Tensor):
            raise ValueError(f"preprocessing.mean: data needs images of one size, {table.name} has several")
        pixels = table.items[table.split("train")].float() / 255
        settings["mean"], settings["std"] = pixels.mean((0, 2, 3)).tolist(), pixels.std((0, 2, 3)).tolist()
    try:
        return Preprocessing(**settings)
    except TypeError as error:
        raise ValueError(f"preprocessing: {error}") from error
