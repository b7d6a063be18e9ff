"""An outside peer: the package equiadapt, whose equivariant network turns an image upright before the classifier.

It is no dependency: ``pip install equiadapt`` beside tokenstn, and ``shortcuts.py`` has a row for it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tokenstn.data import to_float
from tokenstn.models.preprocessing import Preprocessing, preprocessing_of
from tokenstn.training.held import HeldImages
from tokenstn.training.loading import prepared

ROTATIONS = 16
SEEN = 64  # pixels of the image that its network reads, as in its examples


class Canonicalized(nn.Module):
    """The classifier behind equiadapt's ``GroupEquivariantImageCanonicalization`` with 16 rotations."""

    def __init__(self, classifier: nn.Module, shape: tuple[int, int, int], device: str, how: Preprocessing) -> None:
        from equiadapt.images.canonicalization.discrete_group import (  # pyright: ignore[reportMissingImports]
            GroupEquivariantImageCanonicalization,
        )
        from equiadapt.images.canonicalization_networks import (  # pyright: ignore[reportMissingImports]
            CustomEquivariantNetwork,
        )
        from omegaconf import OmegaConf  # pyright: ignore[reportMissingImports]

        super().__init__()
        settings = OmegaConf.create({"beta": 1.0, "input_crop_ratio": 0.9, "resize_shape": min(SEEN, shape[1])})
        network = CustomEquivariantNetwork(shape, 32, 5, "rotation", ROTATIONS, 3, device)
        network.group_type, network.num_rotations = "rotation", ROTATIONS  # which this network of its own does not say
        self.classifier, self.how = classifier, how
        self.canonicalizer: Any = GroupEquivariantImageCanonicalization(network, settings, shape).to(device)

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(B, classes)``."""
        return self.classifier(self.canonicalizer(images))


def trained_peer(bare: Any, table: Any, device: str, steps: int, batch_size: int = 128) -> Canonicalized:
    """Its network learns from upright images that they are upright; the classifier stays as it is."""
    how = preprocessing_of(bare)
    held = HeldImages(prepared(table, "train", how))
    torch.manual_seed(0)
    peer = Canonicalized(bare.classifier.to(device), (held.pixels.shape[1], *how.size), device, how)
    weights = list(peer.canonicalizer.canonicalization_network.parameters())
    optimizer = torch.optim.AdamW(weights, lr=1e-3)
    for _ in range(steps):
        rows = torch.randint(len(held.pixels), (batch_size,))
        peer.canonicalizer(to_float(held.pixels[rows].to(device), how.mean, how.std))
        optimizer.zero_grad()
        peer.canonicalizer.get_prior_regularization_loss().backward()
        optimizer.step()
    return peer.eval()
