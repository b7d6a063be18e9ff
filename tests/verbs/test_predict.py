"""``tokenstn predict`` as a newcomer meets it: what it says, what it leaves, and sentences for mistakes."""

import pandas as pd
import pytest
from PIL import Image

import tokenstn
from tokenstn.cli import main
from tokenstn.data import open_images

from ..models.flags import some_thresholds
from .folders import model_folder, run_folder

FAST = ["--accelerator=cpu", "--progress=false", "--workers=0"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "photos"
    folder.mkdir()
    for number in range(6):
        Image.fromarray(open_images("digits").items[number, 0].numpy()).save(folder / f"{number}.png")
    (folder / "broken.jpg").write_bytes(b"not an image")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return model_folder(tmp_path_factory.mktemp("models") / "flags", thresholds=some_thresholds(), poses="relative")


def test_it_says_what_it_does_and_leaves_predictions(model, photos, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["predict", str(model), str(photos), "--out", str(out), "--shard_size=4", *FAST]) == 0
    said = capsys.readouterr().out
    assert "corrects rotation, poses are relative" in said and "say nothing about what is upright" in said
    assert "6 predicted, 1 could not be read" in said and "rejected.csv says which" in said
    assert "class_uncertain on" in said and "predictions/ (2 files)" in said and "images/s" in said
    assert {path.name for path in out.iterdir()} == {"predictions", "rejected.csv", "predict.json"}
    assert len(pd.read_parquet(out / "predictions")) == 6
    assert main(["predict", str(model), str(photos), "--out", str(out), "--shard_size=4", *FAST]) == 0
    said = capsys.readouterr().out
    assert "7 are done already, 0 to do" in said and "was done already" in said


def test_files_that_are_no_images_are_counted(model, photos, tmp_path, capsys):
    mixed = tmp_path / "photos"
    (mixed / "more").mkdir(parents=True)
    (mixed / "0.png").write_bytes((photos / "0.png").read_bytes())
    for name in ("notes.txt", "more/Thumbs.db", ".DS_Store"):
        (mixed / name).write_text("no image")
    assert main(["predict", str(model), str(mixed), "--out", str(tmp_path / "out"), *FAST]) == 0
    assert f"{mixed}: 1, 2 other files ignored" in " ".join(capsys.readouterr().out.split())
    assert main(["predict", str(model), str(photos), "--out", str(tmp_path / "all"), *FAST]) == 0
    assert "ignored" not in capsys.readouterr().out


def test_from_python_it_is_the_same_function(model, photos, tmp_path):
    loaded = tokenstn.load(model)
    result = tokenstn.predict(loaded, photos, str(tmp_path), accelerator="cpu", workers=0, progress=False)
    assert (result.summary.predicted, result.summary.rejected) == (6, 1)


def test_a_run_folder_is_a_model(photos, tmp_path, capsys):
    run = run_folder(tmp_path / "run")
    assert main(["predict", str(run), str(photos / "0.png"), "--out", str(tmp_path / "out"), *FAST]) == 0
    assert "this model has no thresholds" in capsys.readouterr().out


def test_a_spreadsheet_has_the_same_rows(model, photos, tmp_path, capsys):
    call = ["predict", str(model), str(photos), "--out", str(tmp_path), "--shard_size=2", "--csv=true", *FAST]
    assert main(call) == 0 and "predictions.csv" in capsys.readouterr().out
    whole, sheet = pd.read_parquet(tmp_path / "predictions"), pd.read_csv(tmp_path / "predictions.csv")
    assert len(sheet) == 6 and set(whole.columns) - set(sheet.columns) == {"top_classes", "top_probabilities"}
    assert sheet["path"].tolist() == whole["path"].tolist()
    assert sheet["rotation_deg"].to_numpy() == pytest.approx(whole["rotation_deg"].to_numpy(), rel=1e-5)
    assert sheet["class_uncertain"].tolist() == whole["class_uncertain"].tolist()
    assert main([*call[:5], "--shard_size=2", "--views=1", "--overwrite=true", *FAST]) == 0
    assert not (tmp_path / "predictions.csv").exists(), "it was of other predictions"


def test_flags_that_would_not_hold_are_not_given_and_it_says_so(model, photos, tmp_path, capsys):
    assert main(["predict", str(model), str(photos), "--out", str(tmp_path), "--views=2", *FAST]) == 0
    assert "thresholds hold for other settings than views 2" in capsys.readouterr().out
    assert pd.read_parquet(tmp_path / "predictions")["pose_ambiguous"].isna().all()


def test_a_flag_that_could_not_be_calibrated_is_no_statement_about_the_images(photos, tmp_path, capsys):
    limits = some_thresholds(class_threshold=None)
    model = model_folder(tmp_path / "model", thresholds=limits)
    assert main(["predict", str(model), str(photos), "--out", str(tmp_path / "out"), *FAST]) == 0
    said = capsys.readouterr().out
    assert f"class_uncertain on 6, 100.0%: {limits.uncalibrated['class_uncertain']}" in said
    assert "do not trust the label" not in said and ": several poses fit" in said, "the pose has a threshold"
    assert pd.read_parquet(tmp_path / "out" / "predictions")["class_uncertain"].all()


@pytest.mark.parametrize("name", ["all.csv", "all.parquet", "all.JSONL"])
def test_a_name_that_asks_for_one_file_is_refused(model, photos, tmp_path, capsys, name):
    assert main(["predict", str(model), str(photos), "--out", str(tmp_path / name), *FAST]) == 2
    said = capsys.readouterr().err
    assert "predictions go into a folder, as Parquet" in said and "--csv=true" in said
    assert not list(tmp_path.iterdir())


def test_files_of_others_are_not_written_over(model, photos, tmp_path, capsys):
    for name in ("rejected.csv", "predictions.csv"):
        out = tmp_path / name.removesuffix(".csv")
        out.mkdir()
        (out / name).write_text("mine")
        for overwrite in ("false", "true"):
            call = ["predict", str(model), str(photos), "--out", str(out), "--csv=true", f"--overwrite={overwrite}"]
            assert main([*call, *FAST]) == 2 and f"holds {name} already" in capsys.readouterr().err
        assert (out / name).read_text() == "mine" and len(list(out.iterdir())) == 1


def test_predictions_in_a_folder_with_such_a_name_are_gone_on_with(model, photos, tmp_path):
    out = tmp_path / "all.csv"
    out.mkdir()
    assert main(["predict", str(model), str(photos), "--out", str(out), *FAST]) == 0
    assert len(pd.read_parquet(out / "predictions")) == 6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{model}", "nowhere"], "there is no data set 'nowhere'"),
        (["nowhere", "{photos}"], "nowhere: there is no such folder, and timm has no such model"),
        (["runs/nowhere", "{photos}"], "runs/nowhere: there is no such folder; tokenstn train"),
        (["{model}", "{photos}/*.tif"], "no image matches"),
        (["{model}", "{photos}", "--views=0"], "--views 0: a number from 1 up, or"),
        (["{model}", "{photos}", "--top=0"], "--top 0: a number from 1 up"),
        (["{model}", "{photos}", "--shard_size=0"], "--shard_size 0: at least 1"),
        (["{model}", "{photos}", "--precision=64"], "--precision 64: one of 32-true"),
        (["{model}", "{photos}", "--accelerator=abacus"], "--accelerator abacus: cpu, gpu or auto"),
        (["{model}", "{photos}", "--devices=foo"], "--devices foo: how many"),
        (["{model}", "{photos}", "--devices=0"], "--devices 0: how many"),
    ],
)
def test_a_mistake_gets_a_sentence_and_leaves_nothing_behind(model, photos, tmp_path, capsys, arguments, sentence):
    out = tmp_path / "out"
    filled = [argument.format(model=model, photos=photos) for argument in arguments]
    assert main(["predict", *filled, "--out", str(out), "--progress=false"]) == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said
    assert not out.exists()
