"""One typed function for each verb of the command line: the only place where rooms meet.

These modules import what they need when they are called, so that ``tokenstn --help`` answers at once.
"""

from tokenstn.verbs.bench import bench
from tokenstn.verbs.compare import compare
from tokenstn.verbs.convert import convert
from tokenstn.verbs.demo import demo
from tokenstn.verbs.diagnose import diagnose
from tokenstn.verbs.evaluate import evaluate
from tokenstn.verbs.export import export
from tokenstn.verbs.predict import predict
from tokenstn.verbs.rectify import rectify
from tokenstn.verbs.serve import serve
from tokenstn.verbs.train import train

__all__ = [
    "bench",
    "compare",
    "convert",
    "demo",
    "diagnose",
    "evaluate",
    "export",
    "predict",
    "rectify",
    "serve",
    "train",
]
