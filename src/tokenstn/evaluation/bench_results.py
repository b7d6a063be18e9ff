"""What a benchmark found, as values: ``results/NAME.json`` holds them, tables and figures are made from nothing else.

Shares run from 0 to 1. A row is a method with its settings; a cell is a row × data × seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tokenstn.evaluation.results import Control, Cost, Flips, Interval, PoseScores

BENCH_SCHEMA = "tokenstn.bench/1"
UPRIGHT = "upright"


@dataclass(frozen=True)
class DoubtScores:
    """One kind of uncertainty: AUROC for class errors and for failed poses, AURC, accuracy of the surest answers."""

    class_auroc: float | None
    pose_auroc: float | None
    aurc: float
    accuracy_at_80: float | None
    accuracy_at_90: float | None


@dataclass(frozen=True)
class OrbitScores:
    """How the answers that a person gets do over one orbit.

    flips: against the vanilla classifier of the same data and seed; None for that one itself. entropy: {primitive: mean
    for each class}. views: how many were looked at, on average.
    """

    images: int
    upright: float | None
    mean: float | None
    worst: float | None
    consistency: float
    auc_upright: float | None
    auc: float | None
    by_element: tuple[float, ...] | None
    by_class: tuple[float, ...] | None
    ece: float | None
    views: float | None
    flips: Flips | None
    entropy: dict[str, tuple[float | None, ...]]
    uncertainty: dict[str, DoubtScores]
    pose: dict[str, PoseScores]
    controls: tuple[Control, ...]


@dataclass(frozen=True)
class Cell:
    """state: done, failed, or absent (its data or its method are not at hand); reason: why it is not done.

    seconds: of training and of evaluation on ``device``. settings: what was run, after tuning. key: the hash of all
    that the figures depend on.
    """

    row: str
    data: str
    seed: int
    state: str
    reason: str = ""
    key: str = ""
    orbits: dict[str, OrbitScores] = field(default_factory=dict)
    cost: Cost | None = None
    train_seconds: float | None = None
    evaluate_seconds: float | None = None
    device: str = ""
    classifier: str = ""
    classifier_sha256: str = ""
    weights_sha256: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    collapsed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A row minus the reference row on the same images over an orbit ("upright": the images as they come).

    difference: mean over the seeds, with an interval clustered by image. by_seed: that of each seed.
    """

    row: str
    reference: str
    data: str
    orbit: str
    difference: Interval
    by_seed: tuple[float, ...]
    significant: bool


@dataclass(frozen=True)
class Try:
    """Changes that were tried on validation images, and the mean accuracy over the orbit that they gave."""

    changes: dict[str, Any]
    score: float | None
    key: str
    reason: str = ""


@dataclass(frozen=True)
class Tuning:
    """All tries of a row on a data set; chosen: the place of the one that the cells were run with."""

    row: str
    data: str
    orbit: str
    seed: int
    tries: tuple[Try, ...]
    chosen: int | None


@dataclass(frozen=True)
class Row:
    """A method as it stands in the tables. family: methods of one kind. line, at: its place in a figure of curves."""

    name: str
    title: str
    method: str
    family: str
    views: str
    missing: str | None = None
    line: str | None = None
    at: float | None = None


@dataclass(frozen=True)
class DataIdentity:
    """A data set: images by split, their checksums; missing: why it is not at hand.

    judged: what the images really are that stand as "test" here, "val" where the experiment only chooses.
    """

    name: str
    title: str
    source: str
    images: dict[str, int]
    sha256: dict[str, str]
    classes: int
    missing: str | None = None
    judged: str = "test"


@dataclass(frozen=True)
class OrbitIdentity:
    """An orbit: its group, its elements, angles and scales, the random first shear, and whether corners are hidden."""

    name: str
    group: str
    elements: int
    angles: int
    scales: tuple[float, ...]
    first_shear: float
    mask: bool


@dataclass(frozen=True)
class ClassifierIdentity:
    """A trained classifier: from which weights it started, and the checksum of those it ended with."""

    data: str
    training: str
    seed: int
    key: str
    start: str
    start_sha256: str | None
    weights_sha256: str
    parameters: int
    seconds: float


@dataclass(frozen=True)
class BenchResults:
    """Everything that ``tokenstn bench`` measured.

    reported: numbers of a paper by data, column and row; they were reached with other weights, data and orbits, and are
    never compared. tries: the tuning budget of every row.
    """

    schema: str
    experiment: str
    title: str
    quick: bool
    command: str
    created: str
    wall_seconds: float
    task_seconds: float
    versions: dict[str, str]
    hardware: dict[str, str]
    seeds: tuple[int, ...]
    tries: int
    reference: str
    rows: tuple[Row, ...]
    data: tuple[DataIdentity, ...]
    orbits: tuple[OrbitIdentity, ...]
    classifiers: tuple[ClassifierIdentity, ...]
    cells: tuple[Cell, ...]
    comparisons: tuple[Comparison, ...]
    tuning: tuple[Tuning, ...]
    columns: tuple[str, ...]
    reported: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    reported_source: str = ""

    def cells_of(self, row: str, data: str) -> list[Cell]:
        """The finished cells of a row on a data set, one for each seed."""
        return [cell for cell in self.cells if (cell.row, cell.data, cell.state) == (row, data, "done")]

    def comparison(self, row: str, data: str, orbit: str) -> Comparison | None:
        """The paired comparison of a row with the reference, where there is one."""
        wanted = (row, data, orbit)
        return next((c for c in self.comparisons if (c.row, c.data, c.orbit) == wanted), None)
