"""Any method by its name: the rivals, and the paper's own variants as presets of TokenSTN."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from tokenstn.baselines.base import CommonOptions, Rival
from tokenstn.baselines.canprior_g import CanPriorG
from tokenstn.baselines.canprior_s import CanPriorS
from tokenstn.baselines.diffeo_stn import DiffeoSTN
from tokenstn.baselines.head_stn import HeadSTN
from tokenstn.baselines.its import InverseTransformationSearch
from tokenstn.baselines.polar import Polar
from tokenstn.baselines.pstn import PSTNGamma, PSTNGauss
from tokenstn.baselines.stn import SpatialTransformer
from tokenstn.baselines.tokenstn_matrix import TokenSTNMatrix
from tokenstn.baselines.tokenstn_pixels import TokenSTNPixels
from tokenstn.baselines.tta import TestTimeAugmentation
from tokenstn.baselines.vanilla import Vanilla
from tokenstn.geometry import OneSidedScale, Primitive, Rotation, Shear
from tokenstn.models.backbone import LocalizationSize
from tokenstn.models.tokenstn import TokenSTN

METHODS: dict[str, str] = {
    "tokenstn": "the rectifier of this library: circular posterior on shared tokens",
    "tokenstn-gauss": "the paper's rectifier with a Gaussian posterior",
    "tokenstn-gamma": "the paper's rectifier with Student's t, from a Gamma on the precision",
    "tokenstn-point": "the paper's rectifier without a posterior",
    "tokenstn-matrix": "an ablation: the six entries of the matrix from the shared tokens",
    "tokenstn-pixels": "an ablation: the rectifier of this library with a ConvNet on pixels",
    "vanilla": "the classifier alone; local_averaging=True averages over ±10°",
    "tta": "the classifier's answers pooled over 4 random group elements",
    "its": "inverse transformation search with the classifier's own confidence, untrained",
    "stn": "a ConvNet on pixels regresses the six entries of the matrix",
    "head-stn": "a ConvNet on pixels with one unbounded head for each primitive",
    "pstn-gamma": "probabilistic STN on pixels with Student's t",
    "pstn-gauss": "probabilistic STN on pixels with a Gaussian",
    "polar": "the matrix regressed from a polar image around a predicted origin",
    "logpolar": "the same with logarithmic radii",
    "diffeo-stn": "the matrix exponential of a regressed matrix; skew=True for rotations",
    "canprior-g": "a group convolutional canonicaliser over n rotations, with a prior",
    "canprior-s": "a steerable canonicaliser over all rotations, with a prior",
}


def create(name: str, classifier: nn.Module | str, **options: Any) -> TokenSTN | Rival:
    """A method around a classifier.

    Args:
        name: one of ``METHODS``.
        classifier: a timm model or name, or any module from images to logits.
        options: what the method's class takes.

    >>> type(create("stn", nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()))).__name__
    'SpatialTransformer'
    """
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; there are {', '.join(METHODS)}")
    build, fixed = _BUILDERS[name]
    known = options_of_method(name)
    unknown = [option for option in options if option not in known]
    if unknown:
        raise ValueError(f"{name} does not take {', '.join(unknown)}; its options are {', '.join(known)}")
    return build(classifier, **fixed, **options)


def options_of_method(name: str) -> list[str]:
    """What ``create`` takes for a method beside the classifier."""
    build, fixed = _BUILDERS[name]
    return [option for option in _options_of(build) if option not in fixed]


def learns(name: str) -> bool:
    """Whether a method has anything to train besides the classifier."""
    return getattr(_BUILDERS[name][0], "learns", True)


def _as_in_the_paper(
    classifier: nn.Module | str,
    posterior: str,
    primitives: Iterable[str | Primitive] = (Rotation(), OneSidedScale(), Shear()),
    shared: int | str = 2,
    localization_size: LocalizationSize = None,
    **common: Any,
) -> TokenSTN:
    """The paper's bounds, and the localizer reading at full size, where the size of the images is known."""
    model = TokenSTN(classifier, primitives, posterior, shared, localization_size, **common)
    size_is_known = model.preprocessing is not None or common.get("input_size") is not None
    if localization_size is None and size_is_known and model.backbone.any_size:
        model.localization_size = min(model.backbone.input_size)
    return model


def _options_of(build: Callable[..., Any]) -> list[str]:
    names: list[str] = []
    for parameter in list(inspect.signature(build).parameters.values())[1:]:  # the first is the classifier
        if parameter.kind is not parameter.VAR_KEYWORD:
            names.append(parameter.name)
        else:
            names += CommonOptions.__annotations__
    return names


_BUILDERS: dict[str, tuple[Callable[..., TokenSTN | Rival], dict[str, Any]]] = {
    "tokenstn": (TokenSTN, {}),
    "tokenstn-gauss": (_as_in_the_paper, {"posterior": "gaussian"}),
    "tokenstn-gamma": (_as_in_the_paper, {"posterior": "student"}),
    "tokenstn-point": (_as_in_the_paper, {"posterior": "point"}),
    "tokenstn-matrix": (TokenSTNMatrix, {}),
    "tokenstn-pixels": (TokenSTNPixels, {}),
    "vanilla": (Vanilla, {}),
    "tta": (TestTimeAugmentation, {}),
    "its": (InverseTransformationSearch, {}),
    "stn": (SpatialTransformer, {}),
    "head-stn": (HeadSTN, {}),
    "pstn-gamma": (PSTNGamma, {}),
    "pstn-gauss": (PSTNGauss, {}),
    "polar": (Polar, {"log": False}),
    "logpolar": (Polar, {"log": True}),
    "diffeo-stn": (DiffeoSTN, {}),
    "canprior-g": (CanPriorG, {}),
    "canprior-s": (CanPriorS, {}),
}
