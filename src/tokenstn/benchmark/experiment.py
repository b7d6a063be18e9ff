"""What an experiment is: data, classifiers, methods, orbits, seeds and a budget for tuning, as a YAML file says it.

The ``quick`` section changes the rest for a run of minutes: ``every_method`` is merged into each method, then
``methods``, ``tuning`` and ``evaluation`` are merged key by key; other keys are replaced.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tokenstn.baselines import METHODS
from tokenstn.benchmark.settings import options_of, recipe_of
from tokenstn.benchmark.typed_yaml import merged, typed
from tokenstn.evaluation.bench_results import UPRIGHT
from tokenstn.geometry import Group, group
from tokenstn.geometry.groups import GROUPS
from tokenstn.system.documents import in_short, shown

MERGED = ("methods", "tuning", "evaluation")
COLUMNS = (UPRIGHT, "auc", "fixed", "broken", "views", "parameters", "flops", "ms", "ratio", "seconds", "trained")
OF_AN_ORBIT = ("worst", "auc", "difference", "consistency")


@dataclass(frozen=True)
class OrbitSpec:
    """A group of movements; ``mask`` shows only the inscribed disc of each input."""

    group: str
    order: int | None = None
    scales: int | None = None
    shear: float | None = None
    mask: bool = False

    def __post_init__(self) -> None:
        self.build()

    def build(self) -> Group:
        """The group, of order 16 where nothing else is said."""
        given = {"scales": self.scales, "shear": self.shear}
        options = {name: value for name, value in given.items() if value is not None}
        order = {} if self.order is None else {"order": self.order}
        try:
            return GROUPS[self.group](**order, **options) if self.group in GROUPS else group(self.group, 16)
        except TypeError:
            raise ValueError(f"the group {self.group} does not take {' and '.join(options)}") from None

    @property
    def plain(self) -> bool:
        """Whether element 0 is the image as it comes."""
        return not self.mask and self.build().first_shear == 0


@dataclass(frozen=True)
class TrainingSpec:
    """How a classifier is trained before anything else: what differs from the usual recipe, and how images are moved.

    augmentation: primitives, each a name or ``{name: bound}``; None is the slight jitter of an upright classifier.
    as_is: not at all, because it comes trained.
    """

    recipe: dict[str, Any] = field(default_factory=dict)
    augmentation: tuple[Any, ...] | None = None
    as_is: bool = False


@dataclass(frozen=True)
class ClassifierSpec:
    """A classifier and its trainings by name, such as vanilla and augmented.

    arch: small-vit, a timm name, medvit_small …; arguments: of its builder. weights: a file to start from. folder: a
    model folder to start from. pretrained: let timm fetch weights. size: side of the images. preprocessing: mean, std,
    resize, crop_share and interpolation where they are not the classifier's own; ``mean: data`` takes the images'.
    """

    arch: str = "small-vit"
    arguments: dict[str, Any] = field(default_factory=dict)
    weights: str | None = None
    folder: str | None = None
    pretrained: bool = False
    size: int | None = None
    preprocessing: dict[str, Any] = field(default_factory=dict)
    trainings: dict[str, TrainingSpec] = field(default_factory=lambda: {"vanilla": TrainingSpec()})

    def __post_init__(self) -> None:
        if self.weights is not None and (self.folder is not None or self.pretrained):
            raise ValueError("weights, folder and pretrained are three ways to start: name one of them")


@dataclass(frozen=True)
class DataSpec:
    """A data set: what ``open_images`` takes and its options.

    final: which images the final cells are trained on; everything is chosen with train and val alone. judged: which
    they are judged on; val for an experiment that chooses, and never reads a test image. limit: at most so many images
    of a split. upright: whether the images come upright; None: as is known of the data, and else yes. classifier: where
    it is not that of the others.
    """

    source: str
    title: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    final: Literal["train", "train+val"] = "train"
    judged: Literal["test", "val"] = "test"
    limit: dict[str, int] = field(default_factory=dict)
    upright: bool | None = None
    classifier: ClassifierSpec | None = None

    def __post_init__(self) -> None:
        if self.final == "train+val" and self.judged == "val":
            raise ValueError("final: train+val trains on what judged: val judges")


@dataclass(frozen=True)
class Curve:
    """Where a method stands in the figure of curves: the name of its line and the number along the axis."""

    line: str
    at: float


@dataclass(frozen=True)
class MethodSpec:
    """A row of the table.

    method: a name of ``tokenstn.create``; the row's own when empty. classifier: the training of the classifier that it
    sits on. recipe: ``base``, one of ``training.recipes``, and what differs. augmentation: how training images of a
    rival are moved; the experiment's when None. tune: changes to try, each a mapping of these keys. missing: why this
    row stays empty.
    """

    method: str = ""
    title: str = ""
    classifier: str = "vanilla"
    options: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    augmentation: tuple[Any, ...] | None = None
    views: int | Literal["auto"] = "auto"
    sampling: Literal["probable", "random"] = "probable"
    tune: tuple[dict[str, Any], ...] = ()
    curve: Curve | None = None
    missing: str | None = None

    def changed(self, changes: dict[str, Any], where: str) -> MethodSpec:
        """The same with the changes of one try."""
        return typed(MethodSpec, merged({**asdict(self), "tune": ()}, changes), where)


@dataclass(frozen=True)
class TuningSpec:
    """The budget of every method: so many tries on validation images, with one seed, judged over one orbit."""

    tries: int = 1
    seed: int = 0
    orbit: str | None = None


@dataclass(frozen=True)
class EvaluationSpec:
    """batch_size, draws of the bootstrap; controls: whether the row of reference has them, on the first orbit; cost:
    FLOPs and times at ``cost_views``, of which 0 is the classifier alone.
    """

    batch_size: int = 64
    draws: int = 100
    controls: bool = False
    cost: bool = False
    cost_views: tuple[int, ...] = (0, 1, 2, 4, 8, 16)

    def __post_init__(self) -> None:
        if self.cost_views[:1] != (0,) or tuple(sorted(set(self.cost_views))) != self.cost_views:
            raise ValueError(
                f"cost_views={shown(list(self.cost_views))}: rising numbers of views that begin with 0, the classifier "
                "alone, which all times are compared with"
            )


@dataclass(frozen=True)
class Experiment:
    """One YAML file.

    reference: the row that the others are compared with, image by image. reported: numbers of a paper,
    ``{data: {column: {row: number}}}``, kept apart in a column of their own. columns: of the table, the usual ones when
    empty. precision: Lightning's; bf16-mixed counts for judging too; matmul: torch's float32 matmul precision.
    """

    title: str
    data: dict[str, DataSpec]
    methods: dict[str, MethodSpec]
    orbits: dict[str, OrbitSpec]
    name: str = ""
    seeds: tuple[int, ...] = (0,)
    classifier: ClassifierSpec = ClassifierSpec()
    augmentation: tuple[Any, ...] = ("rotation",)
    reference: str = "tokenstn"
    tuning: TuningSpec = TuningSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    precision: str = "32-true"
    matmul: Literal["highest", "high", "medium"] = "highest"
    columns: tuple[str, ...] = ()
    reported: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    reported_source: str = ""
    quick_run: bool = False

    def __post_init__(self) -> None:
        for what in ("data", "methods", "orbits", "seeds"):
            if not getattr(self, what):
                raise ValueError(f"{what} is empty: an experiment needs at least one")
        if self.name != Path(self.name).name or "\0" in self.name:
            raise ValueError(f"name {self.name!r}: results are called by it, so that it has no folder in it")
        for orbit in self.orbits:
            if orbit in COLUMNS or "." in orbit:
                raise ValueError(f"an orbit cannot be called {orbit!r}: not {', '.join(COLUMNS)}, and without a dot")
        if self.tuning.orbit is not None and self.tuning.orbit not in self.orbits:
            raise ValueError(f"tuning.orbit {self.tuning.orbit!r} is none of the orbits {', '.join(self.orbits)}")
        columns = {*COLUMNS, *self.orbits, *(f"{orbit}.{part}" for orbit in self.orbits for part in OF_AN_ORBIT)}
        columns.add(f"{UPRIGHT}.difference")
        for column in self.columns:
            if column not in columns:
                raise ValueError(f"columns: unknown column {column!r}; there are {', '.join(sorted(columns))}")

    @property
    def first_orbit(self) -> str:
        """The one that rows are compared over."""
        return next(iter(self.orbits))

    def classifier_of(self, data: str) -> ClassifierSpec:
        """That of a data set."""
        return self.data[data].classifier or self.classifier


def experiment_from(document: dict[str, Any], name: str, where: str, quick: bool = False) -> Experiment:
    """The experiment that a YAML document describes; ``where`` is its file, for errors."""
    document = dict(document)
    changes = document.pop("quick", {})
    if quick:
        for part, value in (("quick", changes), ("methods", document.get("methods", {}))):
            if not isinstance(value, dict):
                raise ValueError(f"{where}: {part} is {shown(value)}: expected a mapping")
        everyone, methods = changes.get("every_method", {}), document.get("methods", {})
        document["methods"] = {row: merged(settings or {}, everyone) for row, settings in methods.items()}
        document = changed(document, {key: value for key, value in changes.items() if key != "every_method"})
    if quick and isinstance(document.get("reported"), dict):  # other data: nothing was reported about them
        document["reported"] = {}
    experiment = typed(Experiment, {"name": name, "quick_run": quick, **document}, where)
    for row, spec in experiment.methods.items():
        _check_method(experiment, row, spec, f"{where}: methods.{row}")
    return experiment


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A document with other settings: some of its mappings are merged, everything else is replaced."""
    return {
        **document,
        **{key: merged(document.get(key, {}), value) if key in MERGED else value for key, value in changes.items()},
    }


def _check_method(experiment: Experiment, row: str, spec: MethodSpec, where: str) -> None:
    """Refuse what would only fail when the row's turn comes."""
    if spec.missing is not None:
        return
    for place, changes in enumerate(({}, *spec.tune)):
        here = where if place == 0 else f"{where}.tune[{place - 1}]"
        tried = spec.changed(changes, here)
        if (tried.method or row) not in METHODS:
            raise ValueError(f"{here}: unknown method {tried.method or row!r}; there are {', '.join(METHODS)}")
        for data in experiment.data:
            trainings = experiment.classifier_of(data).trainings
            if tried.classifier not in trainings:
                raise ValueError(
                    f"{here}.classifier {tried.classifier!r} is none of the trainings {', '.join(trainings)} of {data}"
                )
        if tried.sampling == "random" and tried.views == "auto":
            raise ValueError(f"{here}: sampling: random needs a number of views")
        try:
            recipe_of(tried.recipe)
            options_of(tried.method or row, tried.options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{here}: {in_short(error)}") from error
