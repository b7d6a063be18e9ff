"""What the verbs act on: names and paths on the command line, and objects as well from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from tokenstn.data import ImageTable
    from tokenstn.data.torch_dataset import Datasets

    ImageSource = str | Path | ImageTable | Datasets
    ClassifierSource = str | nn.Module
else:  # what the command line's parser sees: it can give nothing but text
    ImageSource = str
    ClassifierSource = str
