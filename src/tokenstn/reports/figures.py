"""All figures of an evaluation, in the order of the page, but for those that its group or missing labels rule out."""

from __future__ import annotations

from tokenstn.evaluation.results import Evaluation
from tokenstn.reports.classes import class_plots
from tokenstn.reports.costs import cost_plots
from tokenstn.reports.orbit import orbit_plots
from tokenstn.reports.plot import Plot
from tokenstn.reports.trust import trust_plots


def figures(evaluation: Evaluation) -> list[Plot]:
    return [
        *orbit_plots(evaluation),
        *class_plots(evaluation),
        *trust_plots(evaluation),
        *cost_plots(evaluation),
    ]
