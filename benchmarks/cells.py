"""The cells of an experiment, and the classifiers that ``tokenstn bench`` has trained for them."""

from __future__ import annotations

from tokenstn.benchmark.cache import Cache
from tokenstn.benchmark.experiment import Experiment
from tokenstn.benchmark.models import build_classifier, load_weights
from tokenstn.benchmark.plan import Planner
from tokenstn.benchmark.task import Task
from tokenstn.data import ImageTable
from tokenstn.models import TokenSTN


def cell_of(experiment: Experiment, row: str, assets: str, seed: int) -> Task:
    """The cell of a row with the first data of its experiment, as it is before any tuning."""
    planner = Planner(experiment, (assets,))
    planner.look_up()
    return planner.cell(row, experiment.methods[row], next(iter(experiment.data)), seed).cell


def classifier_of(cell: Task, cache: Cache, table: ImageTable) -> TokenSTN:
    """The trained classifier that a cell sits on."""
    bare = build_classifier(cell.config["classifier"], cell.files, table)
    load_weights(bare, cache.named("classifier", cell.config["base"]))
    return bare.eval()
