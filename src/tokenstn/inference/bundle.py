"""The folder that ``tokenstn export`` writes, besides the model: what it takes and gives, in words and for servers.

``bundle.json`` and the metadata inside ``model.onnx`` say the same; ``config.pbtxt`` is for Triton; ``predict.py`` and
``verify.py`` run it without torch.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, dtype

from tokenstn.geometry import Primitive
from tokenstn.models.exported import ExportInfo
from tokenstn.models.onnx import PHOTOS

BUNDLE, TRITON, GOLDEN, EXPECTED = "bundle.json", "config.pbtxt", "golden", "expected.npz"
SCRIPTS = ("predict.py", "verify.py")
MODELS = {"onnx": "model.onnx", "pt2": "model.pt2"}
SCHEMA = "tokenstn.bundle/1"

_OF = {
    "rotation": "of the object in the image, radians, clockwise",
    "scale": "of the object, a factor",
    "shear": "of the object",
    "translation": "of the object, x and y in units of half the shorter side of the network's input",
    "reflection": "of the object, 1 or −1 (mirrored up and down, after the rotation)",
}
_WORDS = {
    "probabilities": "of the classes, averaged over the views",
    "photo_pose": "the pose as a matrix in the photo's frame: origin at its centre, x right, y down, half the shorter "
    "side as unit; the upright image at q is the photo at M q",
    "view_matrices": "the poses that were looked at, in the frame of the network's input, the most likely one first",
    "view_weights": "of the views in the average; 0 is a view that is not used",
    "disagreement": "between the views' answers, nats",
    "rectified": "the network's input, upright: pixels from 0 to 255",
    "pose_ambiguous": "whether several poses fit",
    "class_uncertain": "whether not to trust the class",
}
_TRITON = {torch.float32: "TYPE_FP32", torch.uint8: "TYPE_UINT8", torch.bool: "TYPE_BOOL"}
_NAMES = {torch.float32: "float32", torch.uint8: "uint8", torch.bool: "bool"}


def words_for(output: str, primitives: Iterable[Primitive]) -> str:
    """What an output of the graph is, which estimates these primitives; one without words of its own tells its range.

    >>> from tokenstn.geometry import Scale
    >>> words_for("scale", [Scale()])
    'of the object, a factor'
    """
    if output.startswith("entropy_"):
        return f"of the belief about the {output.removeprefix('entropy_')}: 0 certain, 1 no idea"
    if output.startswith("spread_"):
        return f"standard deviation of the belief about the {output.removeprefix('spread_')}"
    estimated = {primitive.name: _words_of(primitive) for primitive in primitives}
    return estimated.get(output) or _WORDS[output]


def _words_of(primitive: Primitive) -> str:
    low, high = primitive.range
    return _OF.get(primitive.name, f"of the object, from {low:.4g} to {high:.4g} {primitive.unit}")


def describe(info: ExportInfo, outputs: Mapping[str, Tensor]) -> dict[str, Any]:
    """What ``bundle.json`` says about a model; ``outputs``: an example of each."""
    photo = ["batch", len(info.preprocessing.mean), "height", "width"]
    words = "photos of any size, all of one size in a batch; resizing and normalisation are inside the graph"
    return {
        "schema": SCHEMA,
        **info.to_json(),
        "input": {PHOTOS: {"dtype": "uint8", "shape": photo, "is": words}},
        "outputs": {
            name: {
                "dtype": _NAMES[values.dtype],
                "shape": ["batch", *values.shape[1:]],
                "is": words_for(name, info.primitives),
            }
            for name, values in outputs.items()
        },
    }


def write_description(folder: Path, description: Mapping[str, Any], triton: str | None) -> None:
    """``config.pbtxt``, and ``bundle.json`` with a checksum of every other file that is there."""
    if triton is not None:
        (folder / TRITON).write_text(triton, encoding="utf-8")
    checksums = {
        str(path.relative_to(folder).as_posix()): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != BUNDLE
    }
    document = json.dumps({**description, "files": checksums}, indent=2, ensure_ascii=False)
    (folder / BUNDLE).write_text(f"{document}\n", encoding="utf-8")


def copy_scripts(folder: Path) -> None:
    """``predict.py`` and ``verify.py``, as they lie in this package."""
    for name in SCRIPTS:
        (folder / name).write_bytes((files("tokenstn.inference") / "bundle_files" / name).read_bytes())


def triton_config(info: ExportInfo, outputs: Mapping[str, Tensor], name: str) -> str:
    """A configuration for Triton's ONNX Runtime backend; requests with photos of one size are batched.

    >>> import tokenstn.inference.bundle as bundle
    >>> print(bundle._tensor("scale", torch.float32, ()))
      { name: "scale" data_type: TYPE_FP32 dims: [ 1 ] reshape: { shape: [ ] } }
    """
    name = re.sub(r"[^\w-]+", "-", name)
    photo = _tensor(PHOTOS, torch.uint8, (len(info.preprocessing.mean), -1, -1))
    given = ",\n".join(_tensor(key, values.dtype, tuple(values.shape[1:])) for key, values in outputs.items())
    return f"""# Triton: put this file into REPOSITORY/{name}/ and model.onnx into REPOSITORY/{name}/1/
name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: 32
dynamic_batching {{ }}
input [
{photo}
]
output [
{given}
]
"""


def _tensor(name: str, kind: dtype, shape: tuple[int, ...]) -> str:
    # Triton knows no tensor without axes besides the batch: it is told to take one away
    dims = f"dims: [ {', '.join(map(str, shape))} ]" if shape else "dims: [ 1 ] reshape: { shape: [ ] }"
    return f'  {{ name: "{name}" data_type: {_TRITON[kind]} {dims} }}'
