"""One door to every kind of data set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from tokenstn.data.arrays import npz_keys
from tokenstn.data.digits import read_digits
from tokenstn.data.folder import read_folder
from tokenstn.data.manifest import read_manifest
from tokenstn.data.medmnist import MEDMNIST_NAMES, is_medmnist, read_medmnist
from tokenstn.data.mnist import raw_folder, read_mnist
from tokenstn.data.mnist_mini import read_mnist_mini
from tokenstn.data.moths import is_moths, read_moths
from tokenstn.data.paths import is_image
from tokenstn.data.rotmnist import read_rotmnist
from tokenstn.data.table import ImageTable
from tokenstn.data.torch_dataset import Datasets, read_dataset

ACCEPTED = f"""a data set is one of
  digits or mnist-mini, which are inside the package, or a MedMNIST name ({", ".join(MEDMNIST_NAMES)})
  a folder: class/…, train|val|test/class/…, or images without labels; or MNIST, RotMNIST, EU- or Ecuador-Moths
  a file: .csv or .parquet (a manifest), .npz (MNIST or MedMNIST), .amat (RotMNIST), .zip (moths), or one image
  from Python: an ImageTable, a torch Dataset of (image, label), or a dict of those for train, val and test"""


EMBEDDED: dict[str, Callable[[], ImageTable]] = {"digits": read_digits, "mnist-mini": read_mnist_mini}


def open_images(source: str | Path | ImageTable | Datasets, **options: Any) -> ImageTable:
    """A data set from a name, a path, or a torch Dataset; ``options`` are those of its reader.

    A name wins over a folder that is called the same: write ``./digits`` for the folder.

    >>> len(open_images("digits"))
    1797
    """
    read, argument = _reader(source)
    known = list(inspect.signature(read).parameters)[len(argument) :]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ValueError(f"{source} is opened with {read.__name__}, which knows {known or 'no options'}, not {unknown}")
    table = read(*argument, **options)
    table.require_every_class()
    return table


def _reader(source: Any) -> tuple[Callable[..., ImageTable], tuple]:
    if isinstance(source, ImageTable):
        return _as_given, (source,)
    if isinstance(source, Dataset | Mapping):
        return read_dataset, (source,)
    if not isinstance(source, str | Path):
        raise ValueError(f"cannot open a {type(source).__name__}: {ACCEPTED}")
    if source in EMBEDDED:
        return EMBEDDED[str(source)], ()
    if isinstance(source, str) and is_medmnist(source):
        return read_medmnist, (source,)
    path = Path(source)
    if path.is_dir():
        return _folder_reader(path), (path,)
    if not path.exists():
        raise ValueError(f"there is no data set {str(source)!r}: no file or folder, and no known name; {ACCEPTED}")
    return _file_reader(path), (path,)


def _folder_reader(folder: Path) -> Callable[..., ImageTable]:
    if is_moths(folder):
        return read_moths
    if any(folder.glob("*.amat")):
        return read_rotmnist
    return read_mnist if raw_folder(folder) else read_folder


def _file_reader(path: Path) -> Callable[..., ImageTable]:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return read_mnist if "x_train" in npz_keys(path) else read_medmnist
    readers = {".csv": read_manifest, ".parquet": read_manifest, ".amat": read_rotmnist, ".zip": read_moths}
    if suffix in readers:
        return readers[suffix]
    if is_image(path):
        return _one_image
    raise ValueError(f"{path} is no data set; {ACCEPTED}")


def _one_image(path: Path) -> ImageTable:
    return ImageTable(path.name, [path], torch.tensor([-1]))


def _as_given(table: ImageTable) -> ImageTable:
    return table
