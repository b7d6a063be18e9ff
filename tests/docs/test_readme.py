"""The README's example runs as it stands, given a loader, and what it saves answers as it did."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import timm
import torch
from pagerun.cells import cells_of

README = Path(__file__).parents[2] / "README.md"


def test_the_ten_lines_run_with_a_loader_of_ones_own(tmp_path, monkeypatch):
    (example,) = (cell for cell in cells_of(README.read_text(encoding="utf-8")) if cell.language == "python")
    torch.manual_seed(0)
    said: dict[str, Any] = {"loader": [torch.randn(2, 3, 224, 224) for _ in range(2)]}
    made = timm.create_model
    monkeypatch.chdir(tmp_path)
    with patch("timm.create_model", lambda name, pretrained=False, **more: made(name, **more)):  # nothing is fetched
        exec(example.code, said)
    p, images = said["p"], said["images"]
    assert p.probabilities.shape == (2, 1000) and not p.probabilities.requires_grad
    assert p.rectified.shape == images.shape
    with torch.no_grad():
        assert torch.equal(said["model"](images).probabilities, p.probabilities)
