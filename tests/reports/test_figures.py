"""Figures show the numbers of the evaluation, no more and no less, in the look that every page can take."""

import csv
import io
import math
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tokenstn.evaluation.results import Element
from tokenstn.reports import Plot, figures
from tokenstn.reports.classes import MOST_CLASSES, entropy_by_class, flips_by_class
from tokenstn.reports.costs import cost
from tokenstn.reports.orbit import by_angle, by_angle_and_scale, orbit_plots
from tokenstn.reports.plot import BARE, INK, RECTIFIED
from tokenstn.reports.svg import inline_svg, standalone_svg
from tokenstn.reports.trust import reliability, risk_coverage, uncertainty_title

from . import evaluations as made


def axes_of(plot: Plot) -> list[Any]:
    """Untyped: matplotlib promises less about what is in them than it keeps."""
    return list(plot.figure.axes)


def lines(axes: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axes.get_lines() if not str(line.get_label()).startswith("_")}


def test_the_polar_plot_has_zero_at_the_top_runs_clockwise_and_averages_over_scales():
    evaluation = made.rectified()
    axes = axes_of(by_angle(evaluation, "accuracy"))[0]
    assert axes.get_theta_direction() == -1 and axes.get_theta_offset() == pytest.approx(math.pi / 2)
    drawn = lines(axes)["bare classifier"]
    assert evaluation.bare.by_element is not None
    grid = np.array(evaluation.bare.by_element).reshape(3, 16)
    assert np.allclose(drawn.get_xdata()[:-1], np.radians(np.arange(16) * 22.5))
    assert np.allclose(drawn.get_ydata()[:-1], grid.mean(0))
    assert drawn.get_ydata()[-1] == drawn.get_ydata()[0]
    assert drawn.get_color() == BARE and lines(axes)["rectified"].get_color() == RECTIFIED


def test_the_map_has_a_cell_for_each_angle_and_scale():
    evaluation = made.rectified()
    plot = by_angle_and_scale(evaluation, "accuracy")
    panels = [axes for axes in axes_of(plot) if axes.collections][:2]
    for panel, scores in zip(panels, (evaluation.bare, evaluation.rectified), strict=True):
        assert scores is not None and scores.by_element is not None
        cells = panel.collections[0].get_array()
        assert np.allclose(cells, np.array(scores.by_element).reshape(3, 16)[::-1])  # the smallest size below


@pytest.mark.parametrize(
    ("elements", "names"),
    [
        ([Element(rotation_deg=45.0 * k) for k in range(8)], {"accuracy_by_angle", "consistency"}),
        ([Element(scale=1 - 0.05 * k) for k in range(6)], {"accuracy_by_scale", "consistency"}),
        ([Element(translation=(x, y)) for y in (0.0, 0.1) for x in (0.0, 0.1)], {"accuracy_by_shift", "consistency"}),
        ([Element(), Element(reflection=-1)], {"consistency"}),
        ([Element()], set()),
    ],
)
def test_every_group_gets_the_figures_that_suit_it(elements, names):
    scores = made.scores(elements, 0.9, 0.4, 2, 0)
    evaluation = made.bare(elements=tuple(elements), bare=scores)
    assert {plot.name for plot in orbit_plots(evaluation)} == names


def test_without_labels_consistency_and_confidence_stand_for_accuracy():
    names = {plot.name for plot in figures(made.unlabelled())}
    assert {"consistency_by_angle", "confidence_by_angle", "consistency_by_angle_and_scale"} <= names
    assert not any(name.startswith("accuracy") for name in names)
    with pytest.raises(ValueError, match="needs labels"):
        by_angle(made.unlabelled(), "accuracy")


def test_entropy_shows_every_sampled_answer_and_the_mean_of_each_outcome():
    evaluation = made.rectified()
    plot = entropy_by_class(evaluation, "rotation")
    axes = axes_of(plot)[0]
    shown = np.concatenate([line.get_xdata()[::3] for line in axes.get_lines() if line.get_solid_capstyle() == "round"])
    given = [value for found in evaluation.entropy["rotation"] for value, _ in found.sample]
    assert set(np.round(given, 9)) <= set(np.round(shown[~np.isnan(shown)], 9))
    means = {float(bar.lines[0].get_xdata()[0]) for bar in axes.containers}
    assert means == {
        getattr(found, what).mean
        for found in evaluation.entropy["rotation"]
        for what in ("fixed", "broken", "unchanged")
        if getattr(found, what).mean is not None
    }
    texts = [text.get_text() for text in axes.texts]
    assert evaluation.flips is not None
    first = evaluation.flips.by_class[0]
    assert texts[:3] == [
        "Smerinthus ocellata",
        f"▲ {100 * first.fixed / first.base_wrong:.0f} % fixed",
        f"▼ {100 * first.broken / first.base_right:.0f} % broken",
    ]


def test_of_a_thousand_classes_the_dozen_with_most_flips_is_drawn_and_the_data_hold_all():
    evaluation = made.thousand()
    assert evaluation.flips is not None
    flips = evaluation.flips.by_class
    most = sorted(range(1000), key=lambda k: flips[k].fixed + flips[k].broken)[-MOST_CLASSES:]
    plot = flips_by_class(evaluation)
    labels = [label.get_text() for label in axes_of(plot)[0].get_yticklabels()]
    assert len(labels) == MOST_CLASSES and "12 of 1,000 classes with most flips" in plot.caption
    assert {label[:9] for label in labels} == {evaluation.classes[k][:9] for k in most}
    assert len(plot.rows) == 1000
    entropy = entropy_by_class(evaluation, "rotation")
    assert len({row[0] for row in entropy.rows}) == 1000 and "12 of 1,000" in entropy.caption
    assert len({row[0] for row in entropy.rows if row[2] == "answer"}) == MOST_CLASSES


def test_reliability_and_risk_are_the_points_given():
    evaluation = made.rectified()
    axes = axes_of(reliability(evaluation))[0]
    assert evaluation.rectified is not None and evaluation.rectified.calibration is not None
    filled = [b for b in evaluation.rectified.calibration.bins if b.count]
    assert lines(axes)["rectified"].get_ydata().tolist() == [b.accuracy for b in filled]
    drawn = lines(axes_of(risk_coverage(evaluation))[0])
    assert set(drawn) == {uncertainty_title(name) for name in evaluation.uncertainty}
    assert list(zip(*drawn["all combined"].get_data(), strict=True)) == list(evaluation.uncertainty["combined"].curve)


def test_no_answers_are_drawn_at_confidences_that_no_answer_has():
    evaluation = made.bare()
    assert evaluation.bare.calibration is not None
    first, *_, last = evaluation.bare.calibration.bins
    apart = replace(evaluation.bare.calibration, bins=(first, last))
    evaluation = replace(evaluation, bare=replace(evaluation.bare, calibration=apart))
    bars = axes_of(reliability(evaluation))[1].patches
    assert [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars] == [
        (pytest.approx(one.low), pytest.approx(one.high)) for one in (first, last)
    ]
    assert sum(bar.get_height() for bar in bars) == pytest.approx(1.0)


def test_cost_bars_are_as_high_as_the_numbers():
    evaluation = made.rectified()
    heights = [[bar.get_height() for bar in axes.patches] for axes in axes_of(cost(evaluation))]
    assert heights[0] == [flops / 1e9 for _, flops in evaluation.cost.flops]
    assert heights[1] == [speed for _, speed in evaluation.cost.throughput]


@pytest.mark.parametrize("kind", ["rectified", "bare", "bare_unlabelled", "nasty"])
def test_data_read_back_as_they_were(kind):
    for plot in figures(made.ALL[kind]()):
        table = list(csv.reader(io.StringIO(plot.csv())))
        assert tuple(table[0]) == plot.columns
        assert len(table) == len(plot.rows) + 1
        for read, given in zip(table[1:], plot.rows, strict=True):
            for text, value in zip(read, given, strict=True):
                assert (
                    text == ("" if value is None else value) if isinstance(value, str | None) else float(text) == value
                )


def test_svg_is_well_formed_takes_the_colour_of_the_page_and_shares_no_id():
    seen: set[str] = set()
    for plot in figures(made.nasty()):
        alone = ElementTree.fromstring(standalone_svg(plot))
        assert alone.tag == "{http://www.w3.org/2000/svg}svg"
        text = inline_svg(plot)
        assert INK not in text and "currentColor" in text and "http" not in text and "<script" not in text
        root = ElementTree.fromstring(text)
        assert root.get("role") == "img" and plot.title in root.get("aria-label", "")
        ids = [element.get("id", "") for element in root.iter() if "id" in element.attrib]
        assert len(ids) == len(set(ids)) and not seen & set(ids)
        for element in root.iter():
            if "href" in element.attrib:
                assert element.attrib["href"].removeprefix("#") in ids
        seen |= set(ids)


def test_the_same_evaluation_gives_the_same_bytes():
    first, second = (standalone_svg(by_angle(made.rectified(), "accuracy")) for _ in range(2))
    assert first == second
