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
    overwrite: bool = False,
) -> Path:
    """Turn a foreign checkpoint into a model folder, without running anything that it contains.

    A checkpoint does not say how its images were prepared. Without input_size, mean and std that is as timm prepares
    them for the architecture; what was taken is said.

    Example: tokenstn convert weights.pth --arch resnet50 --classes classes.txt

    Args:
        checkpoint: a .pth, .pth.tar, .pt or .safetensors file.
        arch: the timm or torchvision name of its architecture.
        classes: a text file with the name of one class per line, in the order of the classifier's outputs.
        out: the folder to write; beside the checkpoint when left out.
        input_size: side of the images that it was trained with, in pixels; the whole shorter side is then shown.
        mean: that was subtracted from pixels between 0 and 1, one number for each channel, with commas.
        std: that they were divided by.
        overwrite: replace a model folder that is there.
    """
    import tokenstn
    from tokenstn.apps.reference import FILE as REFERENCE
    from tokenstn.models import convert as convert_checkpoint
    from tokenstn.models.checkpoint import folder_beside
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
    names = None if classes is None else _lines_of(Path(classes))
    if not Path(checkpoint).is_file():
        raise FileNotFoundError(f"there is no checkpoint {checkpoint}")
    target = folder_beside(Path(checkpoint)) if out is None else Path(out)
    _require_free(target, overwrite)
    convert_checkpoint(checkpoint, arch, names, target, prepared)
    (target / REFERENCE).unlink(missing_ok=True)  # answers of the model that was there
    found = read_json(target / "config.json")["preprocessing"]
    if found is not None:
        how = tokenstn.Preprocessing(**found)
        numbers = (", ".join(f"{number:.4g}" for number in values) for values in (how.mean, how.std))
        said = "{}×{} px, mean {}, std {}, centre {:.0%}".format(*how.size, *numbers, how.crop_share)
        if prepared is None:
            said += f": as {arch} is used to; if it was trained otherwise, give --input_size, --mean and --std"
        say(console(), "images", said)
    return target


def _lines_of(path: Path) -> list[str]:
    """The lines of a text file that are not empty."""
    if not path.is_file():
        raise FileNotFoundError(f"--classes {path}: there is no such file")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"--classes {path} is not in UTF-8 ({error}): save it as UTF-8") from error
    return [line.strip() for line in lines if line.strip()]


def _require_free(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that holds a model, unless it may go, or files of others by the same names."""
    from tokenstn.models.folder import CONFIG, WEIGHTS
    from tokenstn.system.documents import read_json
    from tokenstn.system.files import was_cut_off

    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file, and a model is a folder: choose another --out")
    there = [name for name in (CONFIG, WEIGHTS) if (folder / name).exists()]
    if not there or (there == [WEIGHTS] and was_cut_off(folder)):
        return
    try:
        config = read_json(folder / CONFIG)
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict) or "tokenstn" not in config:  # what wrote it says so there
        raise FileExistsError(f"{folder} holds {' and '.join(there)} of something else: choose another --out")
    if not overwrite:
        raise FileExistsError(f"{folder} holds a model: choose another --out, or replace it, --overwrite=true")
