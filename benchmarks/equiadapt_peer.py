"""An outside peer: the package equiadapt, whose equivariant network turns an image upright before the classifier.

    python benchmarks/equiadapt_peer.py digits --cache runs/bench

trains it in front of the frozen vanilla classifiers that ``tokenstn bench`` has trained for an experiment, judges it
over the first orbit, and writes results/speed/EXPERIMENT_peer.json. It is no dependency: ``pip install equiadapt``
beside tokenstn, and ``shortcuts.py`` and ``cost_of_methods.py`` have a row for it as well.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from cells import cell_of, classifier_of
from timing import write
from torch import Tensor, nn

from tokenstn.benchmark.cache import Cache
from tokenstn.benchmark.files import read_experiment
from tokenstn.benchmark.tables import open_place
from tokenstn.data import ImageTable, to_float
from tokenstn.evaluation.photos import PhotoOrbit, load_photos
from tokenstn.geometry import Group
from tokenstn.models.preprocessing import Preprocessing, preprocessing_of
from tokenstn.training.held import HeldImages
from tokenstn.training.loading import prepared

ROTATIONS = 16
SEEN = 64  # pixels of the image that its network reads, as in its examples
STEPS = 1200  # as many as a rectifier gets on a small set


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


def trained_peer(
    bare: Any, table: ImageTable, device: str, steps: int = STEPS, batch_size: int = 128, seed: int = 0
) -> Canonicalized:
    """Its network learns from upright images that they are upright; the classifier stays as it is."""
    how = preprocessing_of(bare)
    held = HeldImages(prepared(table, "train", how))
    torch.manual_seed(seed)
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


@torch.no_grad()
def judged_alone(network: Any, table: ImageTable, split: str, orbit: Group, device: str) -> dict[str, float]:
    """Accuracy as images come and over an orbit, in percent, of a network that gives logits and nothing else."""
    start, right = time.perf_counter(), []
    for batch in load_photos(table, table.split(split), network.how, 276):
        every = PhotoOrbit(batch, orbit, network.how, device=device)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            answers = [network(every[element]).argmax(-1).cpu() for element in range(len(every))]
        right.append(torch.stack([answer == batch["label"] for answer in answers]).double())
    share = 100 * torch.cat(right, 1).mean(1)
    row = {"upright": share[0].item(), "orbit": share.mean().item(), "seconds": time.perf_counter() - start}
    print(type(network).__name__, {name: round(value, 2) for name, value in row.items()}, flush=True)
    return row


def main() -> None:
    """Parse, train and judge with every seed, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment")
    parser.add_argument("--cache", type=Path, default=Path("runs/bench"))
    parser.add_argument("--assets", default=".assets")
    parser.add_argument("--seeds", nargs="+", type=int, help="those of the experiment when left out")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--results", type=Path, default=Path("results/speed"))
    options = parser.parse_args()
    read, cache, seeds = read_experiment(options.experiment), Cache(options.cache), {}
    orbit = read.orbits[read.first_orbit].build()
    for seed in options.seeds or read.seeds:
        cell = cell_of(read, "vanilla", options.assets, seed)
        table = open_place(cell.place)
        bare, start = classifier_of(cell, cache, table), time.perf_counter()
        peer = trained_peer(bare, table, options.device, options.steps, options.batch_size, seed)
        trained_for = time.perf_counter() - start
        judged = judged_alone(peer, table, cell.config["split"], orbit, options.device)
        seeds[seed] = {**judged, "trained_for": round(trained_for, 1)}
    about = {"data": table.name, "orbit": read.first_orbit, "rotations": ROTATIONS}
    about |= {"steps": options.steps, "batch_size": options.batch_size}
    write(options.results / f"{options.experiment}_peer.json", options.device, {**about, "by_seed": seeds})


if __name__ == "__main__":
    main()
