"""``tokenstn evaluate`` as a newcomer meets it: what it says, what it leaves, and sentences for mistakes."""

import json
import shutil
from pathlib import Path

import pytest
import timm
import torch
from PIL import Image

import tokenstn
from tokenstn.cli import main
from tokenstn.data import open_images, split_table
from tokenstn.data.splits import split_digest
from tokenstn.evaluation.answers_file import load_answers
from tokenstn.evaluation.metrics_json import from_json

from . import json_schema
from .folders import GREY, blank_page, digit_photos, few_digits, model_folder, run_folder

SCHEMA = Path(__file__).parents[2] / "docs" / "metrics.schema.json"
FAST = ["--order=4", "--limit=12", "--accelerator=cpu", "--progress=false", "--cost=false", "--controls=false"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return few_digits(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return model_folder(tmp_path_factory.mktemp("models") / "rectified", poses="relative")


@pytest.fixture(scope="module")
def done(digits, model, tmp_path_factory):
    """An evaluation with everything in it, and where it is."""
    out = tmp_path_factory.mktemp("out") / "one"
    small = ["--order=4", "--limit=12", "--accelerator=cpu", "--progress=false"]
    assert main(["evaluate", str(model), "--data", str(digits), "--out", str(out), *small]) == 0
    return out


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setattr("tokenstn.verbs.evaluation_folder.write_report", blank_page)


def evaluation_in(folder):
    return from_json(json.loads((folder / "metrics.json").read_text(encoding="utf-8")))


def test_an_evaluation_leaves_a_report_and_everything_behind_it(done):
    assert {path.name for path in done.iterdir()} == {"report.html", "metrics.json", "answers.npz", "figures"}
    found = evaluation_in(done)
    assert (found.images, len(found.elements), found.group, found.split) == (12, 4, "rotation", "test")
    assert found.rectified is not None and found.flips is not None and found.controls and found.cost.flops
    kept = load_answers(done)
    assert kept is not None and kept.belongs_to(found)


def test_metrics_follow_the_published_schema(done):
    document = json.loads((done / "metrics.json").read_text(encoding="utf-8"))
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert json_schema.problems(document, schema, schema) == []
    assert json_schema.problems({**document, "images": "many"}, schema, schema)


def test_the_command_in_the_report_can_be_typed_again(done, digits, model):
    command = evaluation_in(done).provenance.command
    assert command.startswith(f"tokenstn evaluate {model} --data {digits} --order 4 --limit 12 --out {done}")


@pytest.mark.usefixtures("no_figures")
def test_it_says_what_it_understood_and_what_it_found(digits, model, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["evaluate", str(model), "--data", str(digits), "--out", str(out), *FAST]) == 0
    said = capsys.readouterr().out
    for part in (
        f"{model}: VisionTransformer", "corrects rotation, poses are relative", "12 of 24 images of the test split",
        "10 classes", "rotation: 4 elements, as many views as needed", "CPU, ", "before", "after", "95 % interval",
        "same answer", "wrong answers fixed", str(out / "report.html"),
    ):  # fmt: skip
        assert part in said, part
    assert evaluation_in(out).poses == "relative"


@pytest.mark.usefixtures("no_figures")
def test_an_evaluation_is_replaced_only_when_asked(done, digits, model, tmp_path, capsys):
    out = shutil.copytree(done, tmp_path / "out")
    call = ["evaluate", str(model), "--data", str(digits), "--out", str(out), *FAST, "--views=2"]
    assert main(call) == 2
    assert "holds an evaluation" in capsys.readouterr().err
    assert (out / "metrics.json").read_bytes() == (done / "metrics.json").read_bytes()
    assert main([*call, "--overwrite=true"]) == 0
    assert evaluation_in(out).views == "2" and not list((out / "figures").iterdir())  # those were of the other one


@pytest.mark.usefixtures("no_figures")
def test_figures_of_others_stay_where_an_evaluation_is_replaced(done, digits, model, tmp_path):
    out = shutil.copytree(done, tmp_path / "out")
    for name in ("my_plot.pdf", "data.csv", "accuracy.svg"):
        (out / "figures" / name).write_text("mine")
    call = ["evaluate", str(model), "--data", str(digits), "--out", str(out), *FAST, "--overwrite"]
    assert main(call) == 0
    assert {path.name for path in (out / "figures").iterdir()} == {"my_plot.pdf", "data.csv", "accuracy.svg"}


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("name", ["report.html", "answers.npz", "figures/data.csv"])
@pytest.mark.parametrize("options", [[], ["--overwrite"]])
def test_files_by_the_same_names_that_no_evaluation_wrote_are_not_touched(
    digits, model, tmp_path, capsys, name, options
):
    mine = tmp_path / "out" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    call = ["evaluate", str(model), "--data", str(digits), "--out", str(tmp_path / "out"), *FAST, *options]
    assert main(call) == 2
    assert f"holds {Path(name).parts[0]} already" in capsys.readouterr().err
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == [mine]


@pytest.mark.parametrize("name", ["images.sha256", "figures"])
def test_a_folder_that_results_cannot_go_into_is_refused_before_anything_is_computed(
    digits, model, tmp_path, capsys, name
):
    (tmp_path / name).write_text("")  # of a training that was interrupted; or a file where a folder is to be
    call = ["evaluate", str(model), "--data", str(digits), "--out", str(tmp_path), *FAST, "--overwrite"]
    assert main(call) == 2
    said = capsys.readouterr()
    assert "choose another --out" in said.err and said.out == ""
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.usefixtures("no_figures")
def test_an_evaluation_that_was_killed_while_it_was_written_is_written_again(done, digits, model, tmp_path):
    out = shutil.copytree(done, tmp_path / "out")
    (out / "metrics.json").unlink()
    (out / ".together.unfinished-x1").mkdir()
    assert main(["evaluate", str(model), "--data", str(digits), "--out", str(out), *FAST]) == 0
    assert evaluation_in(out).images == 12 and not list(out.glob(".*"))


@pytest.mark.usefixtures("no_figures")
def test_a_run_keeps_its_evaluations_and_is_never_overwritten(digits, tmp_path, capsys):
    run = run_folder(tmp_path / "run")
    assert main(["evaluate", str(run), "--data", str(digits), *FAST]) == 0
    assert evaluation_in(run / "evaluation" / "few.npz-test-rotation4").model == str(run)
    again = ["evaluate", str(run), "--data", str(digits), "--out", str(run), "--overwrite=true", *FAST]
    assert main(again) == 2
    assert "holds a training run" in capsys.readouterr().err
    assert "run/1" in (run / "metrics.json").read_text()


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("named", [".", "model", "rectified"])  # a run, and what stands in it
def test_data_without_splits_give_the_images_that_training_kept_apart(tmp_path, capsys, named):
    run = run_folder(tmp_path / "run", seed=3)
    model_folder(run / "rectified")
    call = ["evaluate", str(run / named), "--data", "digits", "--out", str(tmp_path / "out"), *FAST]
    assert main([*call, "--limit=null", "--views=1"]) == 0
    kept = load_answers(tmp_path / "out")
    assert kept is not None and torch.equal(kept.rows, split_table(open_images("digits"), seed=3).split("test"))
    assert "that training keeps apart (seed 3)" in capsys.readouterr().out


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(("changed", "said"), [(False, "training keeps apart"), (True, "or they have changed since")])
def test_a_folder_that_has_changed_since_training_is_not_split_as_then(tmp_path, capsys, changed, said):
    run, photos = run_folder(tmp_path / "run"), tmp_path / "photos"
    for label in range(10):
        digit_photos(photos / str(label), 10, parents=True)
    (run / "images.sha256").write_text(split_digest(open_images(photos)))
    photos = photos.rename(tmp_path / "moved")
    if changed:
        shutil.copy(photos / "3" / "0.png", photos / "3" / "new.png")
    out = str(tmp_path / "out")
    assert main(["evaluate", str(run), "--data", str(photos), "--out", out, *FAST, "--views=1"]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("no_figures")
def test_a_model_whose_training_is_not_known_is_not_said_to_be_judged_on_what_it_has_not_seen(tmp_path, capsys):
    model = model_folder(tmp_path / "alone")
    out = str(tmp_path / "out")
    assert main(["evaluate", str(model), "--data", "digits", "--out", out, *FAST, "--views=1", "--seed=5"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "that training keeps apart" not in said
        and "another training on these data may have shown them to it (seed 5)" in said
    )


@pytest.mark.usefixtures("no_figures")
def test_a_bare_classifier_is_evaluated_as_it_is(digits, tmp_path, capsys):
    bare = model_folder(tmp_path / "bare", primitives=())
    out = tmp_path / "out"
    mirrored = [option for option in FAST if "order" not in option] + [
        "--group=reflection"
    ]  # it has an order of its own
    assert main(["evaluate", str(bare), "--data", str(digits), "--out", str(out), *mirrored]) == 0
    found = evaluation_in(out)
    assert found.rectified is None and found.flips is None and len(found.elements) == 2
    assert "without a rectifier" in capsys.readouterr().out


@pytest.mark.usefixtures("no_figures")
def test_other_classes_need_labels_to_be_left_away(digits, tmp_path, capsys):
    other = model_folder(tmp_path / "letters", classes=tuple("abcdefghij"))
    out = tmp_path / "out"
    call = ["evaluate", str(other), "--data", str(digits), "--out", str(out), *FAST]
    assert main(call) == 2
    said = capsys.readouterr().err
    assert "knows the classes a, b, c, d and 6 more" in said and "--labels=false" in said and not out.exists()
    assert main([*call, "--labels=false"]) == 0
    found = evaluation_in(out)
    assert found.bare.mean is None and found.rectified is not None and 0 <= found.rectified.consistency <= 1
    assert "without labels" in capsys.readouterr().out


@pytest.mark.usefixtures("no_figures")
def test_classes_may_have_another_order(digits, tmp_path):
    scores, whole = [], [option for option in FAST if "limit" not in option]
    for name in ("natural", "backwards"):
        folder = model_folder(tmp_path / name)
        if name == "backwards":
            model = tokenstn.load(folder)
            with torch.no_grad():
                for parameter in (model.classifier.head.weight, model.classifier.head.bias):
                    parameter.copy_(parameter.flip(0))
            model.classes = model.classes[::-1]
            model.save_pretrained(folder)
        out = tmp_path / f"{name}-out"
        assert main(["evaluate", str(folder), "--data", str(digits), "--out", str(out), *whole]) == 0
        scores.append(evaluation_in(out))
    assert scores[0].rectified.mean == pytest.approx(scores[1].rectified.mean) and scores[0].bare.upright > 0.5
    assert scores[1].classes == scores[0].classes[::-1]


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.usefixtures("no_figures")
def test_a_folder_of_images_without_labels(tmp_path, multi_label):
    photos = tmp_path / "photos"
    photos.mkdir()
    for k in range(3):
        Image.new("L", (20, 24), 60 * k).save(photos / f"{k}.png")
    bare = model_folder(tmp_path / "bare", primitives=(), classes=tuple("abcd"), multi_label=multi_label)
    result = tokenstn.evaluate(
        str(bare), str(photos), split="all", order=4, out=str(tmp_path / "out"), controls=False, cost=False,
        progress=False, accelerator="cpu",
    )  # fmt: skip
    assert result.evaluation.images == 3 and result.evaluation.bare.mean is None
    assert result.evaluation.classes == tuple("abcd") and result.out == tmp_path / "out"


@pytest.mark.usefixtures("no_figures")
def test_a_module_from_python_is_evaluated_too(digits, tmp_path):
    network = timm.create_model("vit_tiny_patch16_224", in_chans=1, img_size=16, patch_size=4, embed_dim=24, depth=1,
                                num_heads=2, num_classes=10)  # fmt: skip
    given = tokenstn.TokenSTN(network, primitives=(), preprocessing=GREY)
    settings = {"order": 2, "limit": 5, "controls": False, "cost": False, "progress": False, "accelerator": "cpu"}
    result = tokenstn.evaluate(given, open_images(digits), out=str(tmp_path / "out"), **settings)
    assert result.evaluation.model == "VisionTransformer"
    assert result.evaluation.provenance.command.startswith("tokenstn evaluate VisionTransformer --data mnist")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--order=0"], "an order of at least 1, got 0"),
        (["--group=twirl"], "unknown group 'twirl'"),
        (["--group=rotation", "--scales=3"], "--scales goes with the groups"),
        (["--split=val", "--data=DATA/test-only"], "has no val split (there are: test)"),
        (["--data=nowhere"], "there is no data set 'nowhere'"),
        (["--views=0"], "a number from 1 up"),
        (["--limit=0"], "at least one image"),
        (["--accelerator=tpu"], "cpu, gpu or auto"),
    ],
)
def test_a_mistake_in_the_options_gets_a_sentence_and_leaves_nothing(
    digits, model, tmp_path, capsys, options, sentence
):
    pictures = tmp_path / "test-only" / "test" / "0"
    pictures.mkdir(parents=True)
    Image.new("L", (16, 16)).save(pictures / "a.png")
    out = tmp_path / "out"
    options = [option.replace("DATA", str(tmp_path)) for option in options]
    arguments = ["evaluate", str(model), "--data", str(digits), "--out", str(out), "--progress=false", *options]
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said and not out.exists()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("nowhere/at/all", "there is no such folder; tokenstn train and tokenstn convert make one"),
        ("model.onnx", "there is no such file; tokenstn export writes one"),
        ("EMPTY", "neither a run folder (with model/) nor a model folder"),
        ("STOPPED", "a run that was not finished"),
        ("FILE", "tokenstn convert"),
        ("botnet50ts_256", "timm has no weights for botnet50ts_256"),
        ("resnet18", "tells 1,000 classes apart"),
        ("vit_small_patch14_dinov2", "does not classify"),
    ],
)
def test_what_is_no_model_gets_a_sentence(digits, tmp_path, capsys, given, sentence):
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "STOPPED" / "checkpoints").mkdir(parents=True)
    (tmp_path / "FILE").write_text("weights")
    given = str(tmp_path / given) if given.isupper() else given
    out = tmp_path / "out"
    assert main(["evaluate", given, "--data", str(digits), "--out", str(out), *FAST]) == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said and not out.exists()


def test_weights_that_cannot_be_fetched_get_a_sentence(digits, tmp_path, capsys, monkeypatch):
    def unreachable(*_, **__):
        raise OSError("no route to host\nand many lines more")

    monkeypatch.setattr("timm.create_model", unreachable)
    monkeypatch.setattr("tokenstn.models.hub_access.can_be_looked_up", lambda _: True)
    out = tmp_path / "out"
    assert main(["evaluate", "resnet18", "--data", str(digits), "--out", str(out), "--labels=false", *FAST]) == 2
    said = capsys.readouterr().err
    assert "could not be fetched (no route to host)" in said and "many lines" not in said and not out.exists()


def test_the_images_have_to_be_named(model, capsys):
    assert main(["evaluate", str(model)]) == 2
    assert "name the images to evaluate on: --data" in capsys.readouterr().err
