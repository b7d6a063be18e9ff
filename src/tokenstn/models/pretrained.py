"""A timm classifier that starts from pretrained weights: fetched, or in a file, of which nothing is run."""

from __future__ import annotations

import sys
from os import PathLike
from pathlib import Path
from typing import Any

import timm
import torch
from torch import nn

from tokenstn.models.checkpoint import head_name, read_weights
from tokenstn.models.hub_access import quiet_hub, require_reachable
from tokenstn.models.keys import KeyReport

LARGEST_SIDE = 4096  # pixels: beyond it nothing is trained, and memory ends with an error of the allocator


def size_argument(name: str, input_size: int | None) -> dict[str, Any]:
    """What timm wants to hear of the size of the images: nothing, for a network that takes any, as most CNNs do."""
    if input_size is None:
        return {}
    if not 1 <= input_size <= LARGEST_SIDE:
        raise ValueError(f"--input_size {input_size}: the side of the images in pixels, from 1 to {LARGEST_SIDE}")
    with torch.device("meta"):
        made = timm.create_model(name)
    return {"img_size": input_size} if hasattr(getattr(made, "patch_embed", None), "img_size") else {}


def fetched(name: str, remedy: str, **arguments: Any) -> nn.Module:
    """timm's network with its pretrained weights, from the network where they are not in the cache.

    Args:
        remedy: what to do where they cannot be had, for people.
    """
    try:
        with quiet_hub():
            require_reachable(name)
            return timm.create_model(name, pretrained=True, **arguments)
    except Exception as error:  # whatever a download, a cache or a hub can throw
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"the weights of {name} could not be fetched ({reason}): {remedy}") from error


def from_weights(
    name: str,
    weights: str | PathLike[str],
    classes: int,
    input_size: int | None = None,
    channels: int = 3,
    **arguments: Any,
) -> nn.Module:
    """A timm model whose body comes from a file and whose head is new; a head of as many classes is kept.

    Args:
        weights: a ``.safetensors`` or ``.pth`` file with the weights of ``name``, with or without a head.
        input_size: side of the images; positions are resampled to it, as timm does. None = the model's own.
        arguments: further ones of the model's builder, such as ``drop_path_rate``.
    """
    network: Any = timm.create_model(
        name, num_classes=classes, in_chans=channels, **size_argument(name, input_size), **arguments
    )
    given = read_weights(Path(weights), network)
    # each family of timm has its own, for positions and renamed keys
    adapt = getattr(sys.modules[type(network).__module__], "checkpoint_filter_fn", None)
    given = given if adapt is None else adapt(given, network)
    head = f"{head_name(network)}."
    own = network.state_dict()
    if any(key.startswith(head) and (key not in given or given[key].shape != own[key].shape) for key in own):
        given = {key: value for key, value in given.items() if not key.startswith(head)}
        given |= {key: value for key, value in own.items() if key.startswith(head)}
    report = KeyReport.compare(own, given)
    if not report.fits:
        raise ValueError(f"{weights} does not hold the weights of {name}: {report}")
    network.load_state_dict(given)
    return network
