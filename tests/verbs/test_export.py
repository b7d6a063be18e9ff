"""``tokenstn export`` as a newcomer meets it, and ``tokenstn evaluate`` on what it wrote."""

import json

import pytest
import torch

import tokenstn
from tokenstn.cli import main
from tokenstn.evaluation.metrics_json import to_json

from ..exported import VIEWS, gentle_folder, made
from .folders import blank_page

pytest.importorskip("onnxruntime")
SMALL = {"order": 4, "limit": 12, "accelerator": "cpu", "progress": False}


def numbers(value, path=""):
    """Every figure of a document, by where it stands."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from numbers(item, f"{path}[{place}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


@pytest.mark.slow
def test_an_exported_file_is_evaluated_with_the_figures_of_the_original(tmp_path, capsys):
    digits = str(made().digits)
    found = tokenstn.evaluate(str(made().file), digits, out=str(tmp_path / "onnx"), **SMALL)
    said = capsys.readouterr().out
    assert f"{made().file}: VisionTransformer, exported" in said and "4 elements, 4 views each" in said
    assert (tmp_path / "onnx" / "report.html").is_file() and found.evaluation.views == str(VIEWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokenstn.verbs.evaluation_folder.write_report", blank_page)
        other = tokenstn.evaluate(str(made().folder), digits, out=str(tmp_path / "torch"), views=VIEWS, **SMALL)
    left_out = ("provenance", "cost", "flags", "warnings", "model")
    both = [
        dict(numbers({key: value for key, value in to_json(result.evaluation).items() if key not in left_out}))
        for result in (found, other)
    ]
    assert both[0].keys() == both[1].keys() and len(both[0]) > 500
    for path, value in both[0].items():
        by_rank = path.endswith("auc")  # two answers that are nearly as sure may change places
        assert value == pytest.approx(both[1][path], abs=2e-3 if "sample" in path or by_rank else 1e-4), path
    assert found.evaluation.flips is not None and len(found.evaluation.controls) == 5
    assert found.evaluation.flags is not None and found.evaluation.flags.class_uncertain is not None
    cost = found.evaluation.cost
    assert cost.parameters == other.evaluation.cost.parameters and [views for views, _ in cost.throughput] == [0, 4]
    assert cost.flops == ()


@pytest.mark.usefixtures("no_figures")
def test_other_views_than_the_exported_ones_get_a_sentence(tmp_path, capsys):
    call = ["evaluate", str(made().file), "--data", str(made().digits), "--out", str(tmp_path / "out")]
    assert main([*call, "--views=2", "--progress=false"]) == 2
    assert "exported with 4" in capsys.readouterr().err and not (tmp_path / "out").exists()
    assert main(["evaluate", str(made().bundle), *call[2:]]) == 2
    assert "name the file" in capsys.readouterr().err


def test_a_diagnosis_of_an_exported_file_is_of_its_classifier(capsys):
    found = tokenstn.diagnose(str(made().file), str(made().digits), limit=12, accelerator="cpu", progress=False)
    assert "VisionTransformer, exported" in capsys.readouterr().out
    assert found.diagnosis.verdict


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setattr("tokenstn.verbs.evaluation_folder.write_report", blank_page)


def test_it_says_what_it_did_and_calibrates_the_flags_with_the_answers_of_the_file(tmp_path, capsys):
    folder, out = gentle_folder(tmp_path / "bare", ()), tmp_path / "out"
    call = ["export", str(folder), "--out", str(out)]
    assert main([*call, "--data", str(made().digits), "--split=all", "--limit=3", "--progress=false"]) == 0
    said = capsys.readouterr().out
    for part in (
        "VisionTransformer", "without a rectifier", f"120 images of {made().digits}", "class_uncertain: ",
        "onnx against PyTorch on 3 image files", "in probabilities (allowed 1e-04)", f"python {out / 'predict.py'}",
    ):  # fmt: skip
        assert part in said, part
    loaded = tokenstn.load(out / "model.onnx")
    limits = loaded.thresholds
    assert limits is not None and limits.of_class is not None and limits.of_class.guarantee.images == 60
    assert limits.settings.execution == "onnx" and not limits.holds_for(tokenstn.load(folder).call_settings())
    assert loaded(torch.zeros(1, 1, 16, 16)).class_uncertain is not None
    assert json.loads((out / "bundle.json").read_text())["checked"]["images"] == 3
    assert main(call) == 2
    assert "--overwrite=true" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["resnet18"], "give a run folder or a model folder"),
        (["nowhere"], "no such folder"),
        (["MODEL", "--views=0"], "a number from 1 up"),
        (["MODEL", "--images=nowhere"], "there is no data set"),
        (["MODEL", "--tolerance=0"], "above 0"),
        (["ONNX"], "exported file already"),
    ],
)
def test_a_mistake_gets_a_sentence_and_leaves_nothing(tmp_path, capsys, arguments, sentence):
    names = {"MODEL": str(made().folder), "ONNX": str(made().file)}
    out = tmp_path / "out"
    assert main(["export", *(names.get(word, word) for word in arguments), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said and not list(tmp_path.iterdir())


def test_without_the_extra_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("tokenstn.verbs.extras.find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(ValueError, match=r"onnxscript is not installed: pip install 'tokenstn\[export\]'"):
        tokenstn.export(str(made().folder), str(tmp_path / "out"))
