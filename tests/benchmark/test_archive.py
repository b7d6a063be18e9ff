"""The answers in results/cells.tar.xz are those that the committed tables were made from."""

import json
import tarfile
from pathlib import Path

import pytest

from tokenstn.benchmark.significance import answers_of, right_of
from tokenstn.benchmark.task import folder_of

RESULTS = Path(__file__).parents[2] / "results"
OLDER = ("moths-recipe",)  # results/README.md: its cells were judged with views 10° apart


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    with tarfile.open(RESULTS / "cells.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_every_archived_answer_gives_the_accuracy_in_the_table(cells):
    seen = set()
    for path in sorted(RESULTS.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        if path.stem in OLDER or found.get("schema") != "tokenstn.bench/1":
            continue
        for cell in (cell for cell in found["cells"] if cell["state"] == "done"):
            for orbit, scores in cell["orbits"].items():
                kept = answers_of(cells / folder_of("cell", cell["key"]), orbit)
                if kept is None:
                    continue
                right = right_of(kept).double()
                there = right.mean().item(), right[0].mean().item()
                assert there == pytest.approx((scores["mean"], scores["upright"])), (path.stem, cell["row"], orbit)
                seen.add(path.stem)
    assert {"moths-eu", "ablation", "samples", "medmnist"} <= seen
