"""``tokenstn compare``: two evaluations of the same images side by side."""

import csv
import json
import shutil

import pytest

import tokenstn
from tokenstn.cli import main

from .folders import blank_page, few_digits, model_folder

SMALL = {"order": 4, "controls": False, "cost": False, "progress": False, "accelerator": "cpu"}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Two models on the same digits, and one of them on fewer."""
    root = tmp_path_factory.mktemp("runs")
    digits, folders = str(few_digits(root)), {}
    for name, seed, limit in (("a", 0, None), ("b", 1, None), ("fewer", 1, 10)):
        model = model_folder(root / f"model-{name}", seed=seed)
        folders[name] = root / name
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tokenstn.verbs.evaluation_folder.write_report", blank_page)
            tokenstn.evaluate(str(model), digits, out=str(folders[name]), limit=limit, **SMALL)
    return folders


def test_runs_are_compared_with_the_first(evaluated, tmp_path, capsys):
    out = tmp_path / "comparison"
    runs = [str(evaluated["a"]), str(evaluated["b"])]
    assert main(["compare", *runs, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"to {runs[0]}, rectified, in points" in said.replace("\n", "") and "warning" not in said
    with (out / "comparison.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["run"], row["answerer"]) for row in rows] == [
        (run, who) for run in runs for who in ("bare", "rectified")
    ]
    one, other = (json.loads((evaluated[name] / "metrics.json").read_text()) for name in "ab")
    difference = other["rectified"]["mean"] - one["rectified"]["mean"]
    assert float(rows[3]["orbit_difference"]) == pytest.approx(difference)
    assert float(rows[3]["orbit_difference_low"]) <= difference <= float(rows[3]["orbit_difference_high"])
    assert rows[3]["upright_difference_paired"] == "True" and rows[1]["orbit_difference"] == ""
    assert {file.name for file in (out / "figures").iterdir()} == {"comparison.svg", "comparison.csv"}
    assert main(["compare", *runs, "--out", str(out)]) == 2
    assert "holds a comparison" in capsys.readouterr().err


def test_a_training_run_is_read_too_and_missing_answers_are_mentioned(evaluated, tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    evaluation = json.loads((evaluated["b"] / "metrics.json").read_text())
    (run / "metrics.json").write_text(json.dumps({"schema": "tokenstn.run/1", "evaluation": evaluation}))
    result = tokenstn.compare([str(evaluated["a"]), str(run)])
    said = capsys.readouterr().out
    assert "has no answers.npz, which a paired interval needs" in said
    last = result.rows[-1]
    assert last["orbit_difference_paired"] is False and last["upright_difference_low"] is None
    assert last["orbit_difference_low"] < last["orbit_difference"] < last["orbit_difference_high"]


def test_answers_that_are_not_theirs_are_not_used(evaluated, tmp_path, capsys):
    mixed = shutil.copytree(evaluated["b"], tmp_path / "mixed")
    shutil.copy(evaluated["a"] / "answers.npz", mixed / "answers.npz")
    assert main(["compare", str(evaluated["a"]), str(mixed)]) == 0
    assert "does not belong to its metrics.json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        (["a", "fewer"], "the number of images (24 against 10)"),
        (["a"], "two runs or more, got 1"),
        (["a", "a"], "named twice"),
        (["a", "nowhere"], "there is no such folder"),
        (["a", "EMPTY"], "it has no metrics.json"),
        (["a", "BROKEN"], "metrics.json cannot be read"),
    ],
)
def test_what_cannot_be_compared_gets_a_sentence(evaluated, tmp_path, capsys, runs, sentence):
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "BROKEN").mkdir()
    (tmp_path / "BROKEN" / "metrics.json").write_text('{"schema": "tokenst')
    out = tmp_path / "out"
    given = [str(evaluated.get(run, tmp_path / run)) for run in runs]
    assert main(["compare", *given, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said and not out.exists()
