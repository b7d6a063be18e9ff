"""``tokenstn diagnose``: a verdict for any classifier, with and without labels."""

import json
import shlex

import pytest

import tokenstn
from tokenstn.cli import main
from tokenstn.evaluation.metrics_json import from_json

from .folders import blank_page, few_digits, model_folder, run_folder

FAST = ["--order=4", "--limit=12", "--accelerator=cpu", "--progress=false"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return few_digits(tmp_path_factory.mktemp("my data"))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return model_folder(tmp_path_factory.mktemp("models") / "bare", primitives=())


def test_it_says_the_verdict_the_curves_and_what_to_do_next(classifier, digits, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", str(classifier), str(digits), *FAST]) == 0
    said = capsys.readouterr().out
    assert said.strip().splitlines()[-1].strip().startswith("tokenstn train ")
    for part in (
        "12 of 24 images of the test split", "rotoscale: 6 elements", "turned clockwise by", "270°", "resized to",
        "×0.75", "right on images as they come", "points when turned", "agrees with itself on", "what to do next",
    ):  # fmt: skip
        assert part in said, part
    assert not list(tmp_path.iterdir())  # no report was asked for


def test_the_last_line_is_the_command_with_the_names_as_typed(classifier, digits, capsys):
    arguments = ["diagnose", str(classifier), str(digits), "--labels=false", "--group=rotation", *FAST]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "same answer as unmoved" in said and "mean confidence" in said and "without labels" in said
    last = said.strip().splitlines()[-1].strip()
    # the path of the images has a space in it
    assert last == (
        f"tokenstn train '{digits}' --classifier {classifier} --primitives rotation --labels=false --out runs/rectified"
    )


def test_a_classifier_in_python_is_mended_in_python(classifier, digits):
    model = tokenstn.load(classifier)
    settings = {"group": "rotation", "order": 4, "accelerator": "cpu", "progress": False}
    found = tokenstn.diagnose(model, digits, limit=12, labels=False, **settings).diagnosis
    expected = f"tokenstn.train({str(digits)!r}, classifier=model, primitives=['rotation'], labels=False"
    assert found.command is not None and found.command.startswith(expected)


def test_more_images_are_asked_for_where_there_are_more(classifier, digits):
    settings = {"group": "rotation", "order": 4, "accelerator": "cpu", "progress": False}
    few, all_of_them = (
        " ".join(tokenstn.diagnose(str(classifier), digits, limit=limit, **settings).diagnosis.next_steps)
        for limit in (12, 500)
    )
    assert "raise --limit" in few
    assert "raise --limit" not in all_of_them and "there are no more of them here" in all_of_them


def test_a_report_is_written_when_asked_for(classifier, digits, tmp_path, capsys):
    out = tmp_path / "report"
    assert main(["diagnose", str(classifier), str(digits), "--out", str(out), *FAST]) == 0
    found = from_json(json.loads((out / "metrics.json").read_text(encoding="utf-8")))
    assert len(found.elements) == 12 and found.rectified is None and (out / "report.html").is_file()
    assert f"tokenstn diagnose {classifier}" in found.provenance.command
    capsys.readouterr()
    assert main(["diagnose", str(classifier), str(digits), "--out", str(out), *FAST]) == 2
    assert "holds an evaluation" in capsys.readouterr().err


def test_a_rectifier_is_left_out_and_mentioned(digits, tmp_path, capsys):
    run = run_folder(tmp_path / "run")
    assert main(["diagnose", str(run), str(digits), *FAST, "--labels=false"]) == 0
    said = capsys.readouterr().out
    assert "without a rectifier" in said and "it has a rectifier, which is left out here" in said
    command = said.strip().splitlines()[-1].strip()
    assert command == (
        f"tokenstn evaluate {run} --data '{digits}' --group rotoscale --order 4 --scales 3 --labels=false --limit 12"
    )


def test_the_command_for_a_rectifier_measures_what_the_diagnosis_did(tmp_path, capsys, monkeypatch):
    model = model_folder(tmp_path / "model", classes=tuple("abcdefghij"))
    settings = ["--order=2", "--limit=5", "--labels=false", "--seed=4", "--accelerator=cpu", "--progress=false"]
    assert main(["diagnose", str(model), "digits", "--out", str(tmp_path / "before"), *settings]) == 0
    command = capsys.readouterr().out.split("      tokenstn evaluate ")[1].splitlines()[0]
    assert "--split all" in command and "--labels=false" in command
    monkeypatch.setattr("tokenstn.verbs.evaluation_folder.write_report", blank_page)
    more = ["--out", str(tmp_path / "after"), "--cost=false", "--controls=false", "--progress=false"]
    assert main(["evaluate", *shlex.split(command), *more]) == 0
    before, after = (
        from_json(json.loads((tmp_path / name / "metrics.json").read_text(encoding="utf-8")))
        for name in ("before", "after")
    )
    assert before.elements == after.elements and before.images == after.images
    assert before.bare.consistency == pytest.approx(after.bare.consistency)


def test_what_cannot_be_printed_does_not_keep_the_report_from_being_written(classifier, digits, tmp_path, monkeypatch):
    def unprintable(_) -> str:
        raise UnicodeEncodeError("cp1252", "█", 0, 1, "it has no such letter")

    monkeypatch.setattr("tokenstn.verbs.bars.curves", unprintable)
    out = tmp_path / "report"
    assert main(["diagnose", str(classifier), str(digits), "--out", str(out), *FAST]) == 2
    assert (out / "report.html").is_file() and (out / "metrics.json").is_file()


def test_from_python_the_result_is_a_value(classifier):
    settings = {"limit": 20, "order": 2, "scales": 1, "progress": False, "accelerator": "cpu"}
    result = tokenstn.diagnose(tokenstn.load(classifier), "digits", **settings)
    assert len(result.diagnosis.by_angle) == 2 and result.out is None
    assert set(result.diagnosis.losses) == {"turned"}


def test_every_image_is_looked_at_where_there_is_no_test_split(classifier, capsys):
    assert main(["diagnose", str(classifier), "digits", *FAST]) == 0
    assert "digits: 12 of 1,797 images, 10 classes" in capsys.readouterr().out


def test_of_a_run_only_images_are_looked_at_that_it_was_not_trained_on(tmp_path, capsys):
    run = run_folder(tmp_path / "run", seed=3)
    assert main(["diagnose", str(run / "model"), "digits", *FAST]) == 0
    said = capsys.readouterr().out
    assert "that training keeps apart (seed 3)" in said and "of 1,797 images" not in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere", "DIGITS"], "no such folder, and timm has no such model"),
        (["CLASSIFIER", "nowhere"], "there is no data set 'nowhere'"),
        (["CLASSIFIER", "DIGITS", "--order=0"], "an order of at least 1"),
        (["resnet18", "DIGITS"], "tells 1,000 classes apart"),
        (["model.onnx", "DIGITS"], "tokenstn export writes one"),
    ],
)
def test_a_mistake_gets_a_sentence(classifier, digits, tmp_path, capsys, arguments, sentence):
    given = [part.replace("CLASSIFIER", str(classifier)).replace("DIGITS", str(digits)) for part in arguments]
    out = tmp_path / "out"
    assert main(["diagnose", *given, "--out", str(out), "--progress=false"]) == 2
    assert sentence in capsys.readouterr().err and not out.exists()
