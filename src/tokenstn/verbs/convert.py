"""``tokenstn convert``: a foreign checkpoint into a model folder, safely."""

from __future__ import annotations

from pathlib import Path


def convert(
    checkpoint: str,
    arch: str | None = None,
    classes: str | None = None,
    out: str | None = None,
    input_size: int | None = None,
    mean: list[float] | None = None,
    std: list[float] | None = None,
) -> Path:
    """Turn a foreign checkpoint into a model folder, without running anything that it contains.

    A checkpoint does not say how its images were prepared. Without the last three options that is as timm prepares them
    for the architecture; what was taken is said.

    Example: tokenstn convert weights.pth --arch resnet50 --classes classes.txt

    Args:
        checkpoint: a .pth, .pth.tar, .pt or .safetensors file.
        arch: the timm or torchvision name of its architecture.
        classes: a text file with the name of one class per line, in the order of the classifier's outputs.
        out: the folder to write; beside the checkpoint when left out.
        input_size: side of the images that it was trained with, in pixels; the whole shorter side is then shown.
        mean: that was subtracted from pixels between 0 and 1, one number for each channel, with commas.
        std: that they were divided by.
    """
    import tokenstn
    from tokenstn.models import convert as convert_checkpoint
    from tokenstn.system.documents import read_json
    from tokenstn.verbs.evaluation_steps import console
    from tokenstn.verbs.speech import say

    if arch is None:
        raise ValueError("a checkpoint does not say what it is of: name its architecture with --arch, such as resnet50")
    prepared = None
    if input_size is not None and mean is not None and std is not None:
        prepared = tokenstn.Preprocessing((input_size, input_size), tuple(mean), tuple(std))
    elif (input_size, mean, std) != (None, None, None):
        raise ValueError("--input_size, --mean and --std go together: how the images were prepared, or nothing of it")
    names = None
    if classes is not None:
        lines = Path(classes).read_text(encoding="utf-8").splitlines()
        names = [line.strip() for line in lines if line.strip()]
    folder = convert_checkpoint(checkpoint, arch, names, out, prepared)
    found = read_json(folder / "config.json")["preprocessing"]
    if found is not None:
        how = tokenstn.Preprocessing(**found)
        numbers = (", ".join(f"{number:.4g}" for number in values) for values in (how.mean, how.std))
        said = "{}×{} px, mean {}, std {}, centre {:.0%}".format(*how.size, *numbers, how.crop_share)
        if prepared is None:
            said += f": as {arch} is used to; if it was trained otherwise, give --input_size, --mean and --std"
        say(console(), "images", said)
    return folder
