"""The rivals: one file each, all with TokenSTN's call and result, so that one engine trains and compares them."""

from tokenstn.baselines.base import Rival
from tokenstn.baselines.belief import Belief
from tokenstn.baselines.registry import METHODS, create

__all__ = ["METHODS", "Belief", "Rival", "create"]
