"""A benchmark of seconds: a few digits of 8 pixels, a ViT of two layers, one epoch."""

from pathlib import Path
from typing import Any

import yaml

TINY: dict[str, Any] = {
    "title": "Tiny",
    "seeds": [0],
    "data": {"digits": {"source": "digits", "limit": {"train": 40, "val": 12, "test": 12}}},
    "classifier": {
        "arch": "small-vit",
        "arguments": {"embed_dim": 16, "depth": 2, "num_heads": 2},
        "trainings": {
            "vanilla": {"recipe": {"epochs": 1, "batch_size": 20}},
            "augmented": {"recipe": {"epochs": 1, "batch_size": 20}, "augmentation": ["rotation"]},
        },
    },
    "orbits": {"rotation": {"group": "rotation", "order": 4}},
    "evaluation": {"batch_size": 12, "draws": 2},
    "methods": {
        "vanilla": {},
        "augmented": {"method": "vanilla", "classifier": "augmented"},
        "tta": {"options": {"elements": "rotation"}},
        "stn": {"recipe": {"epochs": 1, "batch_size": 20}},
        "tokenstn": {"options": {"primitives": ["rotation"]}, "recipe": {"epochs": 1, "batch_size": 20}},
    },
}


def tiny(**changes: Any) -> dict[str, Any]:
    """The document of a tiny experiment, with other settings at its top."""
    return {**TINY, **changes}


def rows(*names: str, **more: Any) -> dict[str, Any]:
    """Some rows of the tiny experiment, and others."""
    return {name: TINY["methods"][name] for name in names} | more


def written(folder: Path, document: dict[str, Any], name: str = "tiny") -> str:
    """The document as a YAML file; its path."""
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return str(path)
