"""One typed function for each verb of the command line: the only place where rooms meet.

These modules import what they need when they are called, so that ``tokenstn --help`` answers at once.
"""

from tokenstn.verbs.compare import compare
from tokenstn.verbs.convert import convert
from tokenstn.verbs.diagnose import diagnose
from tokenstn.verbs.evaluate import evaluate
from tokenstn.verbs.train import train

__all__ = ["compare", "convert", "diagnose", "evaluate", "train"]
