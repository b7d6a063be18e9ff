"""Several kinds of doubt about an answer, by their names, and their combination into one.

Uncertainties are larger for less certain answers. ``evaluation.uncertainty.combine`` fits the combination; a model
folder keeps it, and the model computes it in its forward.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenstn.geometry import PRIMITIVES
from tokenstn.system.documents import shown

LARGEST_WHOLE = 2**53
FLOOR = 1e-6  # added before a logarithm: float32 confidences resolve no less
TRANSFORMS = ("identity", "log")
ENTROPY = "entropy_"  # before the name of a primitive


def uncertainty_names() -> tuple[str, ...]:
    """Every kind of doubt that there is; looked up each time, as a primitive may be added at any time."""
    return ("confidence", "predictive_entropy", "disagreement", *(ENTROPY + name for name in PRIMITIVES))


def named_uncertainties(
    confidence: Tensor, predictive_entropy: Tensor, disagreement: Tensor | None, entropy: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Every kind of doubt about answers by its name, all of the shape of the answers, larger for less certain ones.

    confidence: 1 − that of the answer. predictive_entropy: of the answer. disagreement: between views. entropy: of the
    belief about each primitive, which become entropy_rotation, ….
    """
    found = {"confidence": 1 - confidence, "predictive_entropy": predictive_entropy}
    if disagreement is not None:
        found["disagreement"] = disagreement
    return found | {ENTROPY + name: values for name, values in entropy.items()}


@dataclass(frozen=True)
class Combination:
    """Several uncertainties as one probability of a wrong answer; plain numbers, so that JSON can hold it.

    For each of ``names``: whether its logarithm is taken ("log" or "identity"), then mean and standard deviation for
    standardising, then a weight. ``Combination(**json)`` restores what ``dataclasses.asdict`` gave.
    """

    names: tuple[str, ...]
    transforms: tuple[str, ...]
    means: tuple[float, ...]
    stds: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float

    def __post_init__(self) -> None:
        for name in ("names", "transforms", "means", "stds", "weights"):
            values = getattr(self, name)
            if not isinstance(values, list | tuple):  # JSON gives lists
                raise ValueError(f"{name}={values!r}: a list, one for each uncertainty")
            object.__setattr__(self, name, tuple(values))
            if len(values) != len(self.names) or not values:
                raise ValueError(f"{name} has {len(values)} values for {len(self.names)} names: one each, at least 1")
        for name in ("means", "stds", "weights"):
            for value in getattr(self, name):
                require_number(f"one of {name}", value)
        require_number("intercept", self.intercept)
        if any(transform not in TRANSFORMS for transform in self.transforms) or any(std <= 0 for std in self.stds):
            raise ValueError(f"transforms {self.transforms}, stds {self.stds}: identity or log, and above 0")

    def log_odds(self, uncertainties: Mapping[str, Tensor]) -> Tensor:
        """Log-odds that each answer is wrong, float64, of the shape of the uncertainties; more names do no harm.

        Thresholds are compared with these: probabilities near 1 are all alike, and where no uncertainty has a weight
        these are the intercept to the last digit, on any device.
        """
        missing = [name for name in self.names if name not in uncertainties]
        if missing:
            raise ValueError(
                f"the combination needs {', '.join(self.names)}; missing: {', '.join(missing)}; given: "
                f"{', '.join(uncertainties) or 'none'}"
            )
        total: Tensor | float = self.intercept
        for name, transform, mean, std, weight in zip(
            self.names, self.transforms, self.means, self.stds, self.weights, strict=True
        ):
            feature = transformed(uncertainties[name].detach(), transform)
            total = total + weight * (feature - mean) / std
        assert isinstance(total, Tensor)
        return total

    def __call__(self, uncertainties: Mapping[str, Tensor]) -> Tensor:
        """Probability that each answer is wrong, as :meth:`log_odds`."""
        return torch.sigmoid(self.log_odds(uncertainties))


def transformed(values: Tensor, transform: str) -> Tensor:
    """An uncertainty of any shape as it is, or its logarithm, float64."""
    wide = values.float() if values.device.type == "mps" else values.double()  # MPS has no float64
    return torch.log(wide.clamp_min(0) + FLOOR) if transform == "log" else wide


def require_number(name: str, value: object) -> None:
    """Refuse what is not a finite number, or a whole one that no floating point number is exactly."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_WHOLE
    if not whole and not (isinstance(value, float) and math.isfinite(value)):
        raise ValueError(f"{name} is {shown(value)}: a finite number is expected")
