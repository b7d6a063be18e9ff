"""Figures of trust: is the confidence right, and does the uncertainty know which answers are wrong?"""

from __future__ import annotations

import math

from matplotlib.ticker import MaxNLocator

from tokenstn.evaluation.results import Evaluation
from tokenstn.reports.plot import BARE, INK, RECTIFIED, Plot, answerers, blank, legend_below, look, percent_axis

BARE_CONFIDENCE = "bare_confidence"
# of the other uncertainties, the best first; dashes tell them apart without colour
COLORS = (RECTIFIED, "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)), (0, (8, 2)), (0, (8, 2, 1, 2)))
TITLES = {
    "combined": "all combined",
    "predictive_entropy": "entropy of the answer",
    "disagreement": "disagreement of views",
    BARE_CONFIDENCE: "bare classifier alone",
    "bare_confidence_for_rectified": "bare confidence",
}


def trust_plots(evaluation: Evaluation) -> list[Plot]:
    plots: list[Plot] = []
    if any(who.scores.calibration is not None and who.scores.calibration.bins for who in answerers(evaluation)):
        plots.append(reliability(evaluation))
    if evaluation.uncertainty:
        plots.append(risk_coverage(evaluation))
    return plots


@look()
def reliability(evaluation: Evaluation) -> Plot:
    """Accuracy against confidence, and below it how many answers have that confidence."""
    figure = blank(4.3)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    upper.plot([0, 1], [0, 1], color=INK, alpha=0.5, linewidth=1, linestyle="--", label="as sure as right")
    rows: list[tuple[str | float | int, ...]] = []
    for who in answerers(evaluation):
        if who.scores.calibration is None or not who.scores.calibration.bins:
            continue
        bins = who.scores.calibration.bins
        filled = [b for b in bins if b.count]
        upper.plot(
            [b.confidence for b in filled], [b.accuracy for b in filled], color=who.color, marker="o", label=who.title
        )
        total = sum(b.count for b in bins) or 1
        shares, lows, widths = zip(*((b.count / total, b.low, b.high - b.low) for b in bins), strict=True)
        lower.bar(lows, shares, widths, align="edge", fill=False, edgecolor=who.color, linewidth=1.4)
        rows += [(who.name, b.low, b.high, b.count, b.confidence, b.accuracy) for b in bins]
    upper.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="share of right answers")
    lower.set(xlabel="confidence", ylabel="answers")
    lower.yaxis.set_major_locator(MaxNLocator(2))
    lower.set_ylim(bottom=0)
    percent_axis(upper, "y")
    percent_axis(lower, "x")
    percent_axis(lower, "y")
    legend_below(figure, upper, columns=3)
    columns = ("answerer", "low", "high", "count", "confidence", "accuracy")
    caption = "Below the dashed line answers are surer than they are right. The lower part shows how many there are."
    return Plot("reliability", "Reliability of the confidence", figure, columns, tuple(rows), caption)


@look()
def risk_coverage(evaluation: Evaluation) -> Plot:
    """Share of wrong answers among those that are kept, the least uncertain first."""
    scores = evaluation.uncertainty
    figure = blank(3.4 + 0.19 * math.ceil(len(scores) / 2))
    axes = figure.add_subplot()
    others = [name for name in scores if name != BARE_CONFIDENCE]
    # the best is drawn in the colour of the rectified answers, whatever its place
    others.sort(key=lambda name: scores[name].aurc.value)
    for name in scores:
        if name == BARE_CONFIDENCE:
            color, dashes = BARE, "-"
        else:
            color, dashes = (some[others.index(name) % len(some)] for some in (COLORS, DASHES))
        coverage, risk = zip(*scores[name].curve, strict=True) if scores[name].curve else ((), ())
        width = 2.2 if name in (BARE_CONFIDENCE, others[0] if others else "") else 1.3
        axes.plot(coverage, risk, color=color, linestyle=dashes, linewidth=width, label=uncertainty_title(name))
    axes.set(xlim=(0, 1), xlabel="share of answers that are kept", ylabel="wrong among them")
    axes.set_ylim(bottom=0)
    percent_axis(axes, "x")
    percent_axis(axes, "y")
    legend_below(figure, axes)
    rows = tuple((name, coverage, risk) for name, score in scores.items() for coverage, risk in score.curve)
    caption = "Answers are given up from the most uncertain on: the lower the curve, the better it knows its errors."
    return Plot(
        "risk_coverage", "Risk against coverage", figure, ("uncertainty", "coverage", "risk"), rows, caption
    )  # fmt: skip


def uncertainty_title(name: str) -> str:
    """For people, short enough for a legend.

    >>> uncertainty_title("entropy_rotation")
    'entropy of rotation'
    """
    return TITLES.get(name, name.replace("entropy_", "entropy of ").replace("_", " "))
