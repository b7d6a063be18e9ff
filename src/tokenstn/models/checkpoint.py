"""Foreign checkpoints into model folders, without running anything that they contain.

A ``.pth`` or ``.pth.tar`` is a pickle: it is read by torch's weights-only unpickler, which builds tensors and plain
containers and the few harmless types listed here, and refuses everything else.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from tokenstn.models.blueprint import Blueprint, library_of
from tokenstn.models.first_layer import input_channels, patch_size
from tokenstn.models.keys import KeyReport
from tokenstn.models.preprocessing import Preprocessing
from tokenstn.models.tokenstn import TokenSTN
from tokenstn.system.documents import in_short

# what training scripts leave beside the weights: their arguments, and numpy numbers such as the best accuracy
_number = np.float64(0.0).__reduce__()[0]  # what unpickles a numpy number
HARMLESS = [
    argparse.Namespace,
    np.dtype,
    (_number, "numpy._core.multiarray.scalar"),
    (_number, "numpy.core.multiarray.scalar"),  # as numpy 1 wrote it
    *{type(np.dtype(code)) for code in "?bhilBHILefd"},
]
CONTAINERS = ("state_dict_ema", "model_ema", "state_dict", "model_state_dict", "model_state", "model", "net", "weights")
DEEPEST = 8  # containers one in the other
ENDING = re.compile(r"(?<=.)\.(pth\.tar|pth|pt|bin|ckpt|tar|safetensors)$")
WRAPPERS = ("module.", "_orig_mod.", "model.", "classifier.", "net.")


def convert(
    checkpoint: str | PathLike[str],
    arch: str,
    classes: Sequence[str] | None = None,
    out: str | PathLike[str] | None = None,
    preprocessing: Preprocessing | None = None,
) -> Path:
    """Turn a foreign checkpoint into a model folder: a bare classifier, ready for a rectifier.

    Args:
        checkpoint: a ``.safetensors``, ``.pth``, ``.pt`` or ``.pth.tar`` file with the weights of ``arch``.
        arch: a timm name, a torchvision name (``torchvision/resnet50`` where both have one), or ``medvit_tiny``,
            ``medvit_small``, ``medvit_large``.
        classes: names of the classes, in the order of the classifier's outputs.
        out: the folder to write; beside the checkpoint, with its name, when None.
        preprocessing: what its images went through; timm's own for ``arch`` when None, which may not be what it was
            trained with.

    Returns:
        The folder. Nothing is written unless every weight fits, and the preprocessing makes images of as many channels.
    """
    source = Path(checkpoint)
    found = _unwrap(_read(source), source)
    blueprint = _blueprint_for(arch, found)
    classifier = blueprint.build()
    weights = _without_wrapper(found, classifier.state_dict())
    report = KeyReport.compare(classifier.state_dict(), weights)
    if not report.fits:
        raise ValueError(f"{source} does not hold the weights of {arch}: {report}. Nothing was written")
    classifier.load_state_dict(weights)
    outputs = blueprint.arguments.get("num_classes")
    if classes is not None and len(classes) != outputs:
        raise ValueError(f"{source} has {outputs} classes, {len(classes)} names were given. Nothing was written")
    if preprocessing is not None:
        _require_channels(classifier, arch, preprocessing)
    target = Path(out) if out is not None else folder_beside(source)
    size = None if preprocessing is None else preprocessing.size
    model = TokenSTN(classifier, (), classes=classes, preprocessing=preprocessing, input_size=size).eval()
    model.backbone.blueprint = blueprint  # it was built from this one: nothing to find out
    model.save_pretrained(target)
    return target


def folder_beside(checkpoint: Path) -> Path:
    """The folder that a checkpoint is converted to, unless another is named.

    >>> folder_beside(Path("runs/best.1.pth.tar")).as_posix(), folder_beside(Path("best")).as_posix()
    ('runs/best.1', 'best-model')
    """
    name = ENDING.sub("", checkpoint.name)
    return checkpoint.with_name(f"{name}-model" if name == checkpoint.name else name)


def read_weights(path: Path, classifier: nn.Module) -> dict[str, Tensor]:
    """The tensors in a checkpoint, without the prefixes of wrappers; nothing in it is run."""
    return _without_wrapper(_unwrap(_read(path), path), classifier.state_dict())


def head_name(model: nn.Module) -> str | None:
    """The layer whose outputs are the classes: what timm says, or the last one."""
    name = (getattr(model, "pretrained_cfg", None) or {}).get("classifier")
    kinds = ((key, type(module)) for key, module in model.named_modules())
    layers = {kind: key for key, kind in kinds if kind in (nn.Linear, nn.Conv2d)}
    return name if isinstance(name, str) else layers.get(nn.Linear, layers.get(nn.Conv2d))


def _require_channels(classifier: nn.Module, arch: str, preprocessing: Preprocessing) -> None:
    wanted, given = input_channels(classifier, preprocessing.size), len(preprocessing.mean)
    if wanted is not None and wanted != given:
        raise ValueError(
            f"the mean and std of the preprocessing have {given} number{'s' * (given > 1)}, and this {arch} takes "
            f"images of {wanted} channel{'s' * (wanted > 1)}: give one of each for every channel. Nothing was written"
        )


def _read(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except SafetensorError as error:
            raise ValueError(f"{path} is not a safetensors file: {in_short(error)}") from error
    try:
        with torch.serialization.safe_globals(HARMLESS):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # bytes that are no checkpoint can fail in any way
        found = re.search(r"GLOBAL ([\w.]+)", str(error))
        if found is None:
            raise ValueError(f"{path} is not a checkpoint that torch can read ({type(error).__name__})") from error
        raise ValueError(
            f"{path} holds more than weights and is not opened, because unpickling it could run its code: it asks for "
            f"{found[1]}. Save only the state dict, with torch.save(model.state_dict(), …)"
        ) from error


def _unwrap(content: Any, path: Path) -> dict[str, Tensor]:
    """The state dict inside whatever a training script saved."""
    for _ in range(DEEPEST):  # one that holds itself has no end
        if not isinstance(content, Mapping):
            break
        content = next((content[name] for name in CONTAINERS if isinstance(content.get(name), Mapping)), content)
    entries = content.items() if isinstance(content, Mapping) else ()
    weights = {key: value for key, value in entries if isinstance(key, str) and isinstance(value, Tensor)}
    if not weights:
        raise ValueError(f"{path} holds no weights: neither tensors nor one of {', '.join(CONTAINERS)}")
    return weights


def _without_wrapper(weights: dict[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Strip prefixes such as ``module.`` that all keys share and the model's own do not."""
    for _ in WRAPPERS:
        prefix = next((p for p in WRAPPERS if all(key.startswith(p) for key in weights)), None)
        if prefix is None or any(key.startswith(prefix) for key in wanted):
            return weights
        weights = {key.removeprefix(prefix): value for key, value in weights.items()}
    return weights


def _blueprint_for(arch: str, weights: Mapping[str, Tensor]) -> Blueprint:
    """The architecture with as many classes, channels and patches as the weights have."""
    name = arch.removeprefix("torchvision/")
    library = "torchvision" if name != arch else library_of(arch) or "timm"
    plain = Blueprint(library, name).skeleton()
    weights = _without_wrapper(dict(weights), plain.state_dict())
    arguments: dict[str, Any] = {}
    head = weights.get(f"{head_name(plain)}.weight")
    if head is not None and head.ndim > 1:
        arguments["num_classes"] = head.shape[0]
    first = next((f"{key}.weight" for key, module in plain.named_modules() if isinstance(module, nn.Conv2d)), "")
    kernels = (weights.get(first), plain.state_dict().get(first))
    channels = [kernel.shape[1] for kernel in kernels if kernel is not None and kernel.ndim == 4]
    if library != "torchvision" and len(set(channels)) > 1:
        arguments["in_chans"] = channels[0]
    side = _image_side(plain, weights)
    if side is not None:
        arguments["img_size" if library == "timm" else "image_size"] = side
    return Blueprint(library, name, arguments)


def _image_side(plain: Any, weights: Mapping[str, Tensor]) -> int | None:
    """The side of the square images whose patches have positions in the weights; None where ``plain`` has the same."""
    if isinstance(plain, torchvision.models.VisionTransformer):
        key, patch, usual = "encoder.pos_embedding", plain.patch_size, (plain.image_size // plain.patch_size) ** 2
    elif hasattr(plain, "patch_embed") and getattr(plain.patch_embed, "num_patches", None) is not None:
        key, patch, usual = "pos_embed", patch_size(plain)[0], plain.patch_embed.num_patches
    else:
        return None
    wanted, given = plain.state_dict().get(key), weights.get(key)
    if wanted is None or given is None or not wanted.ndim == given.ndim == 3 or wanted.shape[1] == given.shape[1]:
        return None
    patches = given.shape[1] - (wanted.shape[1] - usual)  # without class and register tokens
    return round(patches**0.5) * patch if patches > 0 else None
