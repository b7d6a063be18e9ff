"""How the verbs speak: lines that begin with what they are about, and numbers for people."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from rich.console import Console

from tokenstn.data import ImageTable
from tokenstn.evaluation.answers import is_labelled
from tokenstn.models import TokenSTN
from tokenstn.models.onnx import OnnxClassifier


def say(out: Console, what: str, text: str, style: str | None = None) -> None:
    """One line, as all verbs print them; brackets and colons in names are no markup."""
    out.print(f"{what:<12}{text}", style=style, markup=False, emoji=False)


def warn(out: Console, sentences: Iterable[str]) -> None:
    """In yellow."""
    for sentence in sentences:
        say(out, "warning", sentence, "yellow")


def about(seconds: float) -> str:
    """A duration to be expected, for people.

    >>> about(3), about(38), about(200), about(8000)
    ('a few seconds', 'about 40 seconds', 'about 3 minutes', 'about 2.2 hours')
    """
    if seconds < 8:
        return "a few seconds"
    if seconds < 55:
        return f"about {10 * max(1, round(seconds / 10))} seconds"
    if seconds < 90 * 60:
        minutes = max(1, round(seconds / 60))
        return f"about {minutes} minute{'s' if minutes > 1 else ''}"
    return f"about {seconds / 3600:.1f} hours"


def classes_of(table: ImageTable) -> str:
    """How many classes the images of a table have."""
    if not bool(is_labelled(table.labels).any()):
        return "without labels"
    return f"{len(table.classes):,} {'labels, several for each image' if table.multi_label else 'classes'}"


def classifier_of(model: TokenSTN) -> str:
    """What kind of network answers, of how many parameters, on images of what size."""
    network = model.classifier
    name, parameters = type(network).__name__, sum(parameter.numel() for parameter in network.parameters())
    if isinstance(network, OnnxClassifier):
        about = network.info
        name, parameters = f"{about.classifier}, exported", about.parameters - about.localizer_parameters
    height, width = model.backbone.input_size
    return f"{name}, {parameters / 1e6:.1f} M parameters, {height}×{width} px"


def name_of(device: torch.device) -> str:
    """What a device is called."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' if threads > 1 else ''}"
