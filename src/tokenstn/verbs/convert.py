"""``tokenstn convert``: a foreign checkpoint into a model folder, safely."""

from __future__ import annotations

from pathlib import Path


def convert(checkpoint: str, arch: str | None = None, classes: str | None = None, out: str | None = None) -> Path:
    """Turn a foreign checkpoint into a model folder, without running anything that it contains.

    Example: tokenstn convert weights.pth --arch resnet50 --classes classes.txt

    Args:
        checkpoint: a .pth, .pth.tar, .pt or .safetensors file.
        arch: the timm or torchvision name of its architecture.
        classes: a text file with the name of one class per line, in the order of the classifier's outputs.
        out: the folder to write; beside the checkpoint when left out.
    """
    from tokenstn.models import convert as convert_checkpoint

    if arch is None:
        raise ValueError("a checkpoint does not say what it is of: name its architecture with --arch, such as resnet50")
    names = None
    if classes is not None:
        lines = Path(classes).read_text(encoding="utf-8").splitlines()
        names = [line.strip() for line in lines if line.strip()]
    return convert_checkpoint(checkpoint, arch, names, out)
