"""TokenSTN: image classification that does not depend on how the camera was held, and says what it corrected.

Names are imported when they are first used, so that ``import tokenstn`` costs next to nothing and
``tokenstn.geometry`` no more than torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "TokenSTN": "tokenstn.models.tokenstn",
    "Prediction": "tokenstn.models.prediction",
    "Thresholds": "tokenstn.models.thresholds",
    "Preprocessing": "tokenstn.models.preprocessing",
    "load": "tokenstn.models.folder",
    "convert": "tokenstn.models.checkpoint",
    "create": "tokenstn.baselines.registry",
    "diagnose": "tokenstn.verbs.diagnose",
    "train": "tokenstn.verbs.train",
    "evaluate": "tokenstn.verbs.evaluate",
    "compare": "tokenstn.verbs.compare",
    "bench": "tokenstn.verbs.bench",
    "predict": "tokenstn.verbs.predict",
    "rectify": "tokenstn.verbs.rectify",
    "export": "tokenstn.verbs.export",
    "serve": "tokenstn.verbs.serve",
    "demo": "tokenstn.verbs.demo",
}
_ROOMS = (
    "apps",
    "baselines",
    "benchmark",
    "data",
    "evaluation",
    "geometry",
    "inference",
    "models",
    "posteriors",
    "reports",
    "training",
)
__all__ = [*_HOMES, *_ROOMS]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from tokenstn import apps as apps
    from tokenstn import baselines as baselines
    from tokenstn import benchmark as benchmark
    from tokenstn import data as data
    from tokenstn import evaluation as evaluation
    from tokenstn import geometry as geometry
    from tokenstn import inference as inference
    from tokenstn import models as models
    from tokenstn import posteriors as posteriors
    from tokenstn import reports as reports
    from tokenstn import training as training
    from tokenstn.baselines.registry import create as create
    from tokenstn.models.checkpoint import convert as convert
    from tokenstn.models.folder import load as load
    from tokenstn.models.prediction import Prediction as Prediction
    from tokenstn.models.preprocessing import Preprocessing as Preprocessing
    from tokenstn.models.thresholds import Thresholds as Thresholds
    from tokenstn.models.tokenstn import TokenSTN as TokenSTN
    from tokenstn.verbs.bench import bench as bench
    from tokenstn.verbs.compare import compare as compare
    from tokenstn.verbs.demo import demo as demo
    from tokenstn.verbs.diagnose import diagnose as diagnose
    from tokenstn.verbs.evaluate import evaluate as evaluate
    from tokenstn.verbs.export import export as export
    from tokenstn.verbs.predict import predict as predict
    from tokenstn.verbs.rectify import rectify as rectify
    from tokenstn.verbs.serve import serve as serve
    from tokenstn.verbs.train import train as train


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"tokenstn.{name}")
    raise AttributeError(f"module 'tokenstn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
