"""What an evaluation found, as values: ``metrics.json`` holds them, reports are drawn from nothing else.

Shares and probabilities run from 0 to 1. Angles are in degrees and scales are factors here, because people read these.
An orbit has E elements, element 0 the images as they come; sequences "by element" have length E.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Element:
    """One element of the group, as applied to the images."""

    rotation_deg: float = 0.0
    scale: float = 1.0
    reflection: int = 1
    translation: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ReliabilityBin:
    """Answers whose confidence lies in (low, high]: how many, their mean confidence, the share that is right."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """Over all answers on the orbit. ece: expected calibration error; nll in nats; brier: summed over the classes.

    Bins without an answer are left out.
    """

    ece: float
    nll: float
    brier: float
    bins: tuple[ReliabilityBin, ...]


@dataclass(frozen=True)
class Discrimination:
    """Macro averages over the classes, one against the rest; for two classes those of the second one.

    sensitivity and specificity hold at the operating point: the most probable class, or for two classes and for
    several labels a probability above ``threshold``.
    """

    auc: float | None
    f1: float | None
    sensitivity: float | None
    specificity: float | None
    threshold: float | None


@dataclass(frozen=True)
class Scores:
    """How one answerer, the bare classifier or the rectified one, does over the orbit.

    What needs labels is None without them. consistency: share of moved copies that get the same class as the image as
    it comes; consistency_by_image has quantiles 0, 5, 10, …, 100 % of that share over the images. mean_ci: clustered by
    image. For multi-label data accuracy is the share of labels that are right at ½, and a class is the set of labels.
    """

    upright: float | None
    mean: float | None
    mean_ci: Interval | None
    worst: float | None
    best: float | None
    by_element: tuple[float, ...] | None
    confidence_by_element: tuple[float, ...]
    consistency: float
    consistency_by_element: tuple[float, ...]
    consistency_by_image: tuple[float, ...]
    by_class: tuple[float, ...] | None
    discrimination_upright: Discrimination | None
    discrimination_orbit: Discrimination | None
    calibration: Calibration | None


@dataclass(frozen=True)
class ClassFlips:
    """Over the orbit: of base_wrong answers of the bare classifier, fixed became right; of base_right, broken wrong."""

    fixed: int
    base_wrong: int
    broken: int
    base_right: int


@dataclass(frozen=True)
class Flips:
    """Answers that rectification changed, overall and for each class."""

    overall: ClassFlips
    by_class: tuple[ClassFlips, ...]


@dataclass(frozen=True)
class PoseScores:
    """How well one primitive is found, in its unit for people (degrees; percent for a scale).

    error: median distance to the applied pose, None where poses are only relative. equivariance_error: median distance
    between the pose of a moved image and the moved pose of the same image as it comes. failures: share of more than
    30°, or a factor of 1.1.
    """

    unit: str
    error: float | None
    failures: float | None
    equivariance_error: float | None
    equivariance_failures: float | None
    spread_of_poses: float
    share_at_bound: float
    collapsed: bool
    sentence: str


@dataclass(frozen=True)
class EntropyGroup:
    """Entropy of a primitive's belief over some answers of a class."""

    mean: float | None
    std: float | None
    count: int


@dataclass(frozen=True)
class ClassEntropy:
    """Entropy of one primitive's belief by what became of the answer; ``sample`` has up to 200 (entropy, what) pairs.

    Entropies of the sample are rounded to four digits.
    """

    fixed: EntropyGroup
    broken: EntropyGroup
    unchanged: EntropyGroup
    sample: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class UncertaintyScore:
    """How well one kind of uncertainty tells wrong answers, or wrong poses, from right ones.

    class_auroc: for class errors; pose_auroc: for poses that did not follow the turn by more than 30°; None where there
    are no errors, or none but errors. aurc: area under the risk–coverage curve, excess_aurc: above the best possible.
    curve: (coverage, risk) points, at most 101.
    """

    class_auroc: Interval | None
    pose_auroc: Interval | None
    aurc: Interval
    excess_aurc: float
    curve: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Control:
    """The same evaluation under other circumstances: an accuracy over the same rotations that should not be apart.

    reference: under the ordinary circumstances, over the same images and, but for the seams, the same rotations. warns:
    more than one point apart.
    """

    name: str
    accuracy: float
    reference: float
    bare_accuracy: float
    warns: bool
    sentence: str


@dataclass(frozen=True)
class Cost:
    """Parameters; multiply-adds ×2 for each number of views; throughput and memory beside the bare classifier's.

    flops: (views, FLOPs) of one image. throughput: (views, images per second); views 0 is the bare classifier, in both.
    trainable_parameters: those that ask for a gradient, of the model as it was given. ``auto_views`` is the mean number
    that "auto" used over the orbit. peak_memory_mb: of one batch, None on the CPU.
    """

    parameters: int
    trainable_parameters: int
    localizer_parameters: int
    flops: tuple[tuple[int, float], ...]
    throughput: tuple[tuple[int, float], ...]
    batch_size: int
    peak_memory_mb: float | None
    bare_peak_memory_mb: float | None
    auto_views: float | None
    device: str


@dataclass(frozen=True)
class FlagScore:
    """What one of the two flags does over the orbit.

    raised: share of answers with the flag. risk: share of failures (a wrong class; a pose that did not follow) among
    the answers without it, risk_raised: among those with it; None where it is not known or there are none. target_risk:
    what was promised of the first. kept: False where the whole interval of the risk is above it; None without a risk.
    """

    raised: float
    risk: Interval | None
    risk_raised: float | None
    target_risk: float
    kept: bool | None
    sentence: str


@dataclass(frozen=True)
class FlagScores:
    """Both flags, judged on the answers of an evaluation; a flag that the model folder does not have is None.

    pose_only: share of answers that are ambiguous in their pose and not uncertain in their class.
    """

    class_uncertain: FlagScore | None
    pose_ambiguous: FlagScore | None
    pose_only: float | None


@dataclass(frozen=True)
class Provenance:
    """Where the figures come from."""

    command: str
    created: str
    seconds: float
    device: str
    versions: dict[str, str]
    seed: int
    data_sha256: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """Everything that ``tokenstn evaluate`` measures.

    rectified, and what depends on it, is None for a bare classifier. poses: "absolute", or "relative" where the
    training data were not upright. entropy: {primitive: one ClassEntropy for each class}. uncertainty: {name:
    score}, with the bare classifier's own confidence as "bare_confidence". flags: None where the model folder has no
    thresholds, or none that hold for these views.
    """

    schema: str
    model: str
    data: str
    split: str
    images: int
    classes: tuple[str, ...]
    multi_label: bool
    group: str
    elements: tuple[Element, ...]
    views: str
    poses: str
    bare: Scores
    rectified: Scores | None
    flips: Flips | None
    pose: dict[str, PoseScores]
    entropy: dict[str, tuple[ClassEntropy, ...]]
    uncertainty: dict[str, UncertaintyScore]
    controls: tuple[Control, ...]
    cost: Cost
    provenance: Provenance
    warnings: tuple[str, ...] = ()
    flags: FlagScores | None = None

    @property
    def as_they_come(self) -> str:
        """What element 0 shows, for people: the images as they come, unless the group shears each of them first."""
        return "sheared but not moved" if self.provenance.settings.get("first_shear") else "as they come"


SCHEMA = "tokenstn.evaluation/1"


@dataclass(frozen=True)
class Example:
    """One image of the gallery: what came in, what was corrected, what came out. Pixels are uint8 ``(h, w, 3)`` arrays.

    kind: "fixed", "broken" or "ambiguous". rotation_deg and spread_deg are None without a rotation; scale likewise.
    label, bare and answer are class names.
    """

    kind: str
    name: str
    image: Any
    rectified: Any
    label: str | None
    bare: str
    bare_confidence: float
    answer: str
    confidence: float
    rotation_deg: float | None
    spread_deg: float | None
    scale: float | None
    entropy: dict[str, float]
