"""Whether two models are the same, without keeping either."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tokenstn.models import TokenSTN
from tokenstn.models.digest import digest_of

# what a model's answers depend on besides its weights
SETTINGS = ("primitives", "posterior", "multi_label", "auto", "poses", "preprocessing", "classes", "thresholds")


def fingerprint(model: TokenSTN, place: Path | None = None) -> str:
    """SHA-256 of a model: of its files where it has some, a model folder or an exported file; else of what it holds."""
    if place is None:
        return digest_of(model.state_dict(), repr([getattr(model, name, None) for name in SETTINGS]))
    found = hashlib.sha256()
    files = [place] if place.is_file() else [place / "config.json", place / "model.safetensors"]
    for path in files:
        with path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()
