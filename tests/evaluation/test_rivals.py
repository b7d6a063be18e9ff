"""Every method of the literature goes through the same evaluation."""

import math

import pytest
import torch

import tokenstn
from tokenstn.baselines import METHODS
from tokenstn.evaluation.evaluate import evaluate
from tokenstn.evaluation.metrics_json import from_json, to_json
from tokenstn.geometry import rotation_group
from tokenstn.reports.figures import figures
from tokenstn.reports.html import render

from ..models.classifiers import PlainCNN
from ..training.test_engine import PREPARED, shapes


@pytest.mark.parametrize("name", METHODS)
def test_it_is_evaluated_beside_the_bare_classifier(name):
    torch.manual_seed(0)
    own = {"shared": "body"} if name.startswith("tokenstn") and name != "tokenstn-pixels" else {}
    model = tokenstn.create(
        name, PlainCNN(channels=1, classes=2).eval(), input_size=(28, 28), preprocessing=PREPARED, **own
    ).eval()
    found = evaluate(
        model, shapes(24), "val", group=rotation_group(4), batch_size=4, controls=True, cost=False, draws=10, examples=1
    )
    evaluation = found.evaluation
    assert (evaluation.rectified is None) == (name == "vanilla")
    assert set(evaluation.pose) == {primitive.name for primitive in model.primitives}
    if evaluation.rectified is not None:
        assert evaluation.flips is not None and not math.isnan(evaluation.rectified.mean or 0)
    assert from_json(to_json(evaluation)).bare == evaluation.bare
    assert "<html" in render(evaluation, found.examples, figures(evaluation))
