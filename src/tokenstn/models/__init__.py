"""Classifiers and the rectifier around them. Imports no training code."""

from tokenstn.models.backbone import Backbone
from tokenstn.models.checkpoint import convert
from tokenstn.models.folder import load, save
from tokenstn.models.localizer import Localizer
from tokenstn.models.prediction import Prediction, Thresholds
from tokenstn.models.preprocessing import Preprocessing
from tokenstn.models.tokenstn import AutoViews, TokenSTN

__all__ = [
    "AutoViews",
    "Backbone",
    "Localizer",
    "Prediction",
    "Preprocessing",
    "Thresholds",
    "TokenSTN",
    "convert",
    "load",
    "save",
]
