"""The twelve 2-D sets of MedMNIST v2, from a local npz file that is what it says it is."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from tokenstn.data.arrays import load_npz, stack
from tokenstn.data.table import SPLITS, ImageTable

MEDMNIST_NAMES = (
    "pathmnist", "chestmnist", "dermamnist", "octmnist", "pneumoniamnist", "retinamnist",
    "breastmnist", "bloodmnist", "tissuemnist", "organamnist", "organcmnist", "organsmnist",
)  # fmt: skip
_OFFICIAL = re.compile(rf"({'|'.join(MEDMNIST_NAMES)})(_64|_128|_224|)")
KEYS = tuple(f"{split}_{what}" for split in SPLITS for what in ("images", "labels"))
BREAST = {  # so that one set works without the medmnist package
    "MD5": "750601b1f35ba3300ea97c75c52ff8f6",
    "label": {"0": "malignant", "1": "normal, benign"},
    "task": "binary-class",
}


def read_medmnist(source: str | Path, root: str | Path | None = None, verify: bool = True) -> ImageTable:
    """A MedMNIST set with its train, val and test splits; chestmnist is multi-label.

    Args:
        source: the npz file under its official name (``breastmnist.npz``, ``pathmnist_224.npz``), or that name alone.
        root: the folder of the file when ``source`` is a name; None: where the medmnist package keeps its files.
        verify: compare the MD5 with the official one; False for a file that was changed on purpose.
    """
    path = Path(source)
    if path.suffix != ".npz":
        folder = Path.home() / ".medmnist" if root is None else Path(root)
        path = folder / f"{source}.npz"
    name, size = _name(path)
    if not path.is_file():
        where = Path("~", path.relative_to(Path.home())) if path.is_relative_to(Path.home()) else path
        raise ValueError(
            f"there is no {where}; download {path.name} from https://zenodo.org/records/10519652 to that folder, "
            "or say where it is"
        )
    info = _info(name, size)
    if verify:
        _verify(path, info, f"MD5{size}")
    arrays = load_npz(path, KEYS)
    parts = {split: (arrays[f"{split}_images"], arrays[f"{split}_labels"]) for split in SPLITS}
    images, labels, splits = stack(parts, path)
    multi_label = info["task"].startswith("multi-label")
    return ImageTable(
        path.stem,
        images,
        labels.float() if multi_label else labels.flatten().long(),
        tuple(info["label"][str(index)] for index in range(len(info["label"]))),
        splits,
        multi_label=multi_label,
        channels=images.shape[1],
    )


def is_medmnist(name: str) -> bool:
    """Whether this names one of the sets, with or without a size."""
    return _OFFICIAL.fullmatch(name) is not None


def _name(path: Path) -> tuple[str, str]:
    found = _OFFICIAL.fullmatch(path.stem)
    if found is None:
        raise ValueError(
            f"{path.name} is not called like a MedMNIST file: one of {', '.join(MEDMNIST_NAMES)}, "
            "with _64, _128 or _224 for the larger sizes, and .npz"
        )
    return found[1], found[2]


def _info(name: str, size: str) -> dict[str, Any]:
    if name == "breastmnist" and not size:
        return BREAST
    try:
        from medmnist import INFO
    except ImportError:
        raise ValueError(
            f"the labels of {name}{size} come from the medmnist package, which is not installed: "
            "pip install 'tokenstn[medical]'"
        ) from None
    return INFO[name]


def _verify(path: Path, info: dict[str, Any], key: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != info[key]:
        raise ValueError(
            f"{path} is not the official file (MD5 {found}, expected {info[key]}): download it again, "
            "or open it with verify=False if it was changed on purpose"
        )
