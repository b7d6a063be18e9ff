"""Runs side by side: the figure's marks are the runs' numbers."""

import csv
import io

import numpy as np
import pytest

from tokenstn.reports import comparison_plot, write_comparison

from . import evaluations as made


def test_every_run_has_its_marks():
    runs = [made.rectified(), made.bare()]
    plot = comparison_plot(["moths", "$photos"], runs)
    found = {(row[0], row[1]): row[2:] for row in plot.rows}
    assert set(found) == {("moths", "bare"), ("moths", "rectified"), ("$photos", "bare")}
    scores = runs[0].rectified
    assert scores is not None and scores.mean_ci is not None
    assert found["moths", "rectified"] == (scores.upright, scores.mean, scores.mean_ci.low, scores.mean_ci.high)
    drawn = {float(x) for line in plot.figure.axes[0].get_lines() for x in np.asarray(line.get_xdata())}
    assert {value for row in plot.rows for value in row[2:]} <= drawn


def test_runs_without_labels_are_compared_by_consistency():
    plot = comparison_plot(["a", "b"], [made.unlabelled(), made.rectified()])
    assert plot.columns[3] == "consistency"
    assert plot.rows[0][3] == made.unlabelled().bare.consistency


def test_names_and_runs_must_match():
    with pytest.raises(ValueError, match="1 names for 2 runs"):
        comparison_plot(["a"], [made.bare(), made.bare()])
    with pytest.raises(ValueError, match="a name for each run"):
        comparison_plot([], [])


def test_a_comparison_is_a_table_and_a_figure(tmp_path):
    plot = comparison_plot(["a", "b"], [made.rectified(), made.bare()])
    rows = [{"run": "a", "orbit": 0.8941}, {"run": "b", "orbit": 0.6912, "difference": -0.2029}]
    path = write_comparison(rows, plot, tmp_path)
    table = list(csv.DictReader(io.StringIO(path.read_text())))
    assert table[0] == {"run": "a", "orbit": "0.8941", "difference": ""} and float(table[1]["difference"]) == -0.2029
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"comparison.svg", "comparison.csv"}
