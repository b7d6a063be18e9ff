"""A split that is held in memory gives the batches that reading it anew would give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from tests.training.test_engine import PREPARED, shapes
from tokenstn.data import UnreadableImageError
from tokenstn.training import held
from tokenstn.training.loading import load


@pytest.fixture
def files(tmp_path: Path):
    """Shapes as files, one of which is cut off."""
    table, paths = shapes(40), []
    for row in range(len(table)):
        paths.append(tmp_path / f"{row:03}.png")
        Image.fromarray(table.items[row, 0].numpy()).resize((40, 31)).save(paths[-1])
    broken = paths[int(table.splits["train"][3])]
    broken.write_bytes(broken.read_bytes()[:40])
    return replace(table, items=paths)


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("in_memory", [True, False], ids=["array", "files"])
def test_held_batches_are_those_read_anew(files, split, in_memory):
    table = shapes(40) if in_memory else files
    anew, kept = (load(table, split, PREPARED, 7, on_bad="skip", hold=hold) for hold in (False, True))
    assert isinstance(kept.dataset, held.HeldImages)
    for one, other in zip(anew, kept, strict=True):
        assert torch.equal(one["image"], kept.dataset.on(torch.device("cpu"), other["places"]))
        for name in ("label", "index"):
            assert torch.equal(one[name], other[name]), name
        assert one["bad"] == other["bad"]


def test_a_broken_file_is_named_at_once_unless_skipped(files):
    with pytest.raises(UnreadableImageError, match="png"):
        load(files, "train", PREPARED, 7, hold=True)


def test_a_split_that_is_too_large_is_read_anew(files, monkeypatch):
    monkeypatch.setattr(held, "MOST_BYTES", 1000)
    assert not isinstance(load(files, "val", PREPARED, 7, hold=True).dataset, held.HeldImages)
