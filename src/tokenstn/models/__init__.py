"""Classifiers and the rectifier around them. Imports no training code."""

from tokenstn.models.backbone import Backbone
from tokenstn.models.call_settings import AutoViews
from tokenstn.models.checkpoint import convert
from tokenstn.models.folder import load, save
from tokenstn.models.localizer import Localizer
from tokenstn.models.medvit import MedViT, medvit_large, medvit_small, medvit_tiny
from tokenstn.models.prediction import Prediction
from tokenstn.models.preprocessing import Preprocessing
from tokenstn.models.thresholds import Thresholds
from tokenstn.models.tokenstn import TokenSTN

__all__ = [
    "AutoViews",
    "Backbone",
    "Localizer",
    "MedViT",
    "Prediction",
    "Preprocessing",
    "Thresholds",
    "TokenSTN",
    "convert",
    "load",
    "medvit_large",
    "medvit_small",
    "medvit_tiny",
    "save",
]
