"""Above which uncertainty the two flags are raised, and for which calls that holds: plain numbers, for a model folder.

``evaluation.thresholds`` finds them for a target risk. The flags are independent: ``pose_ambiguous`` looks at the
belief about the pose alone, ``class_uncertain`` at a combination of uncertainties that was fitted to class errors, so
that a symmetric cell can have the first without the second.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from tokenstn.geometry import PRIMITIVES
from tokenstn.models.call_settings import LEFT_OUT, AutoViews, CallSettings
from tokenstn.models.combination import ENTROPY, Combination, require_number, uncertainty_names

T = TypeVar("T")

NOT_CALIBRATED = "not calibrated: every image is flagged, because no threshold keeps"
FITTING = "tokenstn.evaluation.thresholds.fit_thresholds"


@dataclass(frozen=True)
class Guarantee:
    """What is promised of the answers without a flag, and what that rests on.

    Of ``images`` calibration images, one answer each, ``accepted`` got no flag, and ``errors`` of those were
    ``failure`` ("wrong", "more than 30° …"). bound: upper confidence bound of the share of failures among accepted
    answers, at most ``target_risk`` where a threshold was found, 1 where not. assumptions: under which it holds.
    """

    failure: str
    target_risk: float
    confidence: float
    images: int
    accepted: int
    errors: int
    bound: float
    assumptions: str

    def __post_init__(self) -> None:
        for name in ("failure", "assumptions"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name}={getattr(self, name)!r}: words")
        for name in ("target_risk", "confidence"):
            require_number(name, getattr(self, name))
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r}: between 0 and 1, both excluded")
        require_number("bound", self.bound)
        counts = (self.errors, self.accepted, self.images)
        if any(not isinstance(count, int) or isinstance(count, bool) for count in counts):
            raise ValueError(f"errors, accepted, images = {counts}: whole numbers")
        if not 0 <= self.errors <= self.accepted <= self.images or not 0 <= self.bound <= 1:
            raise ValueError(
                f"{self.errors} errors among {self.accepted} accepted of {self.images} images, bound {self.bound}: no "
                "more errors than accepted, no more accepted than images, and a bound from 0 to 1"
            )

    @property
    def why_every_image(self) -> str:
        """Where no threshold was found: why the flag is raised, which says nothing about any one image."""
        risk = _percent(self.target_risk)
        if self.images < self._fewest:
            return f"{NOT_CALIBRATED} the risk below {risk} on only {self.images} calibration images"
        return (
            f"{NOT_CALIBRATED} the risk below {risk} on {self.images} calibration images, which are too few or fail "
            "too often"
        )

    def sentence(self, flag: str, judged: str, found: bool) -> str:
        """What it means for one of the flags, in plain words; ``judged``: "answers" or "poses"."""
        sure = f"with {_percent(self.confidence)} confidence"
        if not found:
            # half of the images choose the combination and the grid
            why = (
                f"too few: it takes at least {2 * self._fewest} images that it was not trained on, half of which "
                "calibrate, if none of them fails; tokenstn train keeps a tenth of a folder for that, or takes its val/"
                if self.images < self._fewest
                else "which are too few or fail too often: it takes a better model or more images, or a larger risk, "
                f"which you can set in Python with {FITTING}, as docs/tutorials/uncertainty.md shows"
            )
            return (
                f"{flag}: {NOT_CALIBRATED} the share of accepted {judged} that are {self.failure} at "
                f"{_percent(self.target_risk)}, {sure}, on {self.images} calibration images, {why}"
            )
        return (
            f"{flag}: accepts {_percent(self.accepted / self.images)} of turned images; at most "
            f"{_percent(self.target_risk)} of the accepted {judged} are {self.failure}, {sure}, for images like these "
            f"{self.images}"
        )

    @property
    def _fewest(self) -> int:
        """Calibration images below which there is no threshold, even if none of them fails."""
        return math.ceil(math.log(1 - self.confidence) / math.log1p(-self.target_risk))


@dataclass(frozen=True)
class ClassThreshold:
    """``class_uncertain`` is raised where the combination's log-odds are above ``threshold``; everywhere when None."""

    combination: Combination
    threshold: float | None
    guarantee: Guarantee

    def __post_init__(self) -> None:
        known = uncertainty_names()
        unknown = [name for name in self.combination.names if name not in known]
        if unknown:
            raise ValueError(f"unknown uncertainties {unknown}; there are {', '.join(known)}")
        _require_threshold(self.threshold, self.guarantee)

    def __call__(self, uncertainties: Mapping[str, Tensor]) -> Tensor:
        """The flag, bool, for uncertainties by name (:func:`named_uncertainties`), of their shape."""
        return _above(self.combination.log_odds(uncertainties), self.threshold)


@dataclass(frozen=True)
class PoseThreshold:
    """``pose_ambiguous`` is raised where the largest entropy of these primitives is above; everywhere when None."""

    primitives: tuple[str, ...]
    threshold: float | None
    guarantee: Guarantee

    def __post_init__(self) -> None:
        if not isinstance(self.primitives, list | tuple) or not self.primitives:
            raise ValueError(f"primitives={self.primitives!r}: a list of at least one")
        object.__setattr__(self, "primitives", tuple(self.primitives))
        unknown = [name for name in self.primitives if name not in PRIMITIVES]
        if unknown:
            raise ValueError(f"unknown primitives {unknown}; there are {', '.join(PRIMITIVES)}")
        _require_threshold(self.threshold, self.guarantee)

    def largest(self, entropy: Mapping[str, Tensor]) -> Tensor:
        """What the threshold is for: the largest entropy, of the shape of the entropies."""
        return torch.stack([entropy[name].detach() for name in self.primitives]).amax(0)

    def __call__(self, entropy: Mapping[str, Tensor]) -> Tensor:
        """The flag, bool, for entropies by primitive, of their shape."""
        return _above(self.largest(entropy), self.threshold)


@dataclass(frozen=True)
class Thresholds:
    """Both flags, and the calls that they are for. A flag that there was nothing to calibrate with is None.

    ``settings``: the model as it was called on the calibration images. Under others the uncertainties are distributed
    differently and nothing is promised, so that the flags are not given there (:meth:`holds_for`, :meth:`why_not`).

    >>> Thresholds(of_class=None, of_pose=None, settings=CallSettings("auto", AutoViews())).sentences[0]
    'class_uncertain: not given, because no image with a label was there to calibrate it'
    """

    of_class: ClassThreshold | None
    of_pose: PoseThreshold | None
    settings: CallSettings

    def class_uncertain(self, uncertainties: Mapping[str, Tensor]) -> Tensor | None:
        """Whether not to trust the label, bool, of the shape of the uncertainties by name."""
        return None if self.of_class is None else self.of_class(uncertainties)

    def pose_ambiguous(self, entropy: Mapping[str, Tensor]) -> Tensor | None:
        """Whether several poses fit, bool, of the shape of the entropies by primitive."""
        return None if self.of_pose is None else self.of_pose(entropy)

    def holds_for(self, call: CallSettings) -> bool:
        """Whether the flags may be raised in a call (``model.call_settings``)."""
        return call == self.settings

    def why_not(self, call: CallSettings) -> str | None:
        """Why a call gets no flags, as a sentence; None where it gets them."""
        if self.holds_for(call):
            return None
        asked, known = asdict(call), asdict(self.settings)
        if call.views == self.settings.views == "auto":
            asked["views"], known["views"] = f"auto, {call.auto}", f"auto, {self.settings.auto}"
        names = ("views", "sampling", "precision", "execution")
        others = [f"{name} {asked[name]} (calibrated: {known[name]})" for name in names if asked[name] != known[name]]
        return (
            "the flags pose_ambiguous and class_uncertain are not given, because their thresholds hold for other "
            f"settings than {', '.join(others)}: call the model as it was calibrated, or calibrate it again"
        )

    def require_fit(self, primitives: Collection[str]) -> None:
        """Refuse thresholds that look at what a model with these primitives does not have."""
        asked = set() if self.of_pose is None else set(self.of_pose.primitives)
        if self.of_class is not None:
            names = self.of_class.combination.names
            asked |= {name.removeprefix(ENTROPY) for name in names if name.startswith(ENTROPY)}
        missing = sorted(asked - set(primitives))
        if missing or (self.settings.views is None) == bool(primitives):
            raise ValueError(
                f"these thresholds were found with another model: they look at {', '.join(sorted(asked)) or 'no pose'} "
                f"with views={self.settings.views!r}, and this model estimates {', '.join(primitives) or 'no pose'}"
            )

    @property
    def sentences(self) -> tuple[str, str]:
        """What each flag promises, in plain words: class_uncertain, then pose_ambiguous."""
        of_class, of_pose = self.of_class, self.of_pose
        return (
            "class_uncertain: not given, because no image with a label was there to calibrate it"
            if of_class is None
            else of_class.guarantee.sentence("class_uncertain", "answers", of_class.threshold is not None),
            "pose_ambiguous: not given, because no rotation or scale of moved images was there to calibrate it"
            if of_pose is None
            else of_pose.guarantee.sentence("pose_ambiguous", "poses", of_pose.threshold is not None),
        )

    @property
    def uncalibrated(self) -> dict[str, str]:
        """{flag: why it is raised on every image}, for people, of the flags for which no threshold was found.

        >>> Thresholds(of_class=None, of_pose=None, settings=CallSettings("auto", AutoViews())).uncalibrated
        {}
        """
        parts = {"class_uncertain": self.of_class, "pose_ambiguous": self.of_pose}
        return {
            flag: part.guarantee.why_every_image
            for flag, part in parts.items()
            if part is not None and part.threshold is None
        }

    def to_json(self) -> dict[str, Any]:
        """Plain values; a threshold of null says that none meets the target."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Any) -> Thresholds:
        """What :meth:`to_json` gave; anything else is refused with a sentence."""
        whole = _fields_of(cls, document, "thresholds")
        of_class, of_pose = whole["of_class"], whole["of_pose"]
        if of_class is not None:
            parts = _fields_of(ClassThreshold, of_class, "thresholds.of_class")
            parts["combination"] = _restored(Combination, parts["combination"], "thresholds.of_class.combination")
            parts["guarantee"] = _restored(Guarantee, parts["guarantee"], "thresholds.of_class.guarantee")
            of_class = _restored(ClassThreshold, parts, "thresholds.of_class")
        if of_pose is not None:
            parts = _fields_of(PoseThreshold, of_pose, "thresholds.of_pose")
            parts["guarantee"] = _restored(Guarantee, parts["guarantee"], "thresholds.of_pose.guarantee")
            of_pose = _restored(PoseThreshold, parts, "thresholds.of_pose")
        settings = _fields_of(CallSettings, whole["settings"], "thresholds.settings")
        if isinstance(settings["auto"], dict):
            known = {**LEFT_OUT, **settings["auto"]}
            settings["auto"] = _restored(AutoViews, known, "thresholds.settings.auto")
        return cls(of_class, of_pose, _restored(CallSettings, settings, "thresholds.settings"))


def _above(values: Tensor, threshold: float | None) -> Tensor:
    if threshold is None:
        return torch.ones_like(values, dtype=torch.bool)
    return ~(values <= threshold)  # not ">": what is not a number is not to be trusted


def _require_threshold(threshold: object, guarantee: Guarantee) -> None:
    if threshold is None:
        return
    require_number("threshold", threshold)
    if guarantee.bound > guarantee.target_risk:
        raise ValueError(
            f"threshold {threshold} has a risk of up to {guarantee.bound}, above the target {guarantee.target_risk}: "
            "a threshold that does not meet its target is None"
        )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _fields_of(kind: type, document: Any, where: str) -> dict[str, Any]:
    """A copy of a JSON object that has the fields of a dataclass and no others."""
    names = [field.name for field in fields(kind)]
    if not isinstance(document, dict) or set(document) != set(names):
        given = ", ".join(map(str, document)) if isinstance(document, dict) else repr(document)
        raise ValueError(f"{where} has the fields {', '.join(names)}; got {given or 'none'}")
    return dict(document)


def _restored(kind: type[T], document: Any, where: str) -> T:
    values = _fields_of(kind, document, where)
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
