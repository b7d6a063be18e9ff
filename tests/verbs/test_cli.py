"""The command line as a newcomer meets it: a run from images to a model folder, and sentences for mistakes."""

import json

import numpy as np
import pytest
import torch
import yaml

import tokenstn
from tokenstn.cli import _with_lists, main
from tokenstn.data import open_images

from ..models.classifiers import small_vit


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A few digits in one file, as MNIST comes."""
    table = open_images("digits")
    rows = torch.arange(240)
    path = tmp_path_factory.mktemp("data") / "few.npz"
    pixels, labels = table.items[rows, 0].numpy(), table.labels[rows].numpy()
    np.savez(path, x_train=pixels[:180], y_train=labels[:180], x_test=pixels[180:], y_test=labels[180:])
    return path


SHORT = ["--primitives=[rotation]", "--classifier_epochs=2", "--epochs=2", "--accelerator=cpu", "--devices=1"]
SHORT.append("--progress=false")


@pytest.fixture(scope="module")
def run(digits, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "one"
    assert main(["train", str(digits), "--out", str(out), *SHORT]) == 0
    return out


def test_a_run_leaves_a_folder_with_everything_in_it(run):
    assert {path.name for path in run.iterdir()} >= {
        "config.yaml", "model", "metrics.json", "checkpoints", "logs", "training_images.png", "classifier",
        "images.sha256",
    }  # fmt: skip
    metrics = json.loads((run / "metrics.json").read_text())
    assert tokenstn.load(run / "model").thresholds is not None
    assert metrics["poses"] in ("absolute", "relative") and len(metrics["evaluation"]["rectified"]["by_element"]) == 16
    assert yaml.safe_load((run / "config.yaml").read_text())["epochs"] == 2


@torch.no_grad()
def test_the_model_of_a_run_loads_and_answers(run):
    model = tokenstn.load(run / "model")
    assert model.classes is not None and len(model.classes) == 10
    assert model(torch.rand(2, 1, 28, 28)).probabilities.shape == (2, 10)


def test_a_classifier_folder_is_used_as_it_is(run, digits, tmp_path, capsys):
    trained = tokenstn.load(run / "model").classifier.state_dict()
    out = tmp_path / "two"
    assert main(["train", str(digits), "--classifier", str(run / "model"), "--out", str(out), *SHORT]) == 0
    assert "as it is" in capsys.readouterr().out
    again = tokenstn.load(out / "model").classifier.state_dict()
    assert all(torch.equal(value, again[key]) for key, value in trained.items())


def test_a_finished_run_is_not_overwritten(run, digits, capsys):
    before = (run / "metrics.json").read_bytes()
    assert main(["train", str(digits), "--out", str(run), *SHORT]) == 2
    assert "holds a finished run" in capsys.readouterr().err
    assert (run / "metrics.json").read_bytes() == before


def test_to_go_on_with_a_finished_run_leaves_it_as_it_is(run, digits, capsys):
    """A run that is killed after its last file was written is done."""
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert main(["train", str(digits), "--out", str(run), "--resume=true", *SHORT]) == 0
    assert "it was finished before" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


class PowerCutError(Exception):
    pass


@pytest.mark.slow
def test_a_stopped_run_goes_on_and_ends_with_the_same_model(run, digits, tmp_path, monkeypatch):
    out = tmp_path / "stopped"

    def cut(self) -> None:
        if self.current_epoch == 1:
            raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr("tokenstn.training.rectifier_training.RectifierTraining.on_train_epoch_start", cut)
        with pytest.raises(PowerCutError):
            main(["train", str(digits), "--out", str(out), *SHORT])
    assert not (out / "metrics.json").exists() and not (out / "model").exists()
    assert main(["train", str(digits), "--out", str(out), "--resume=true", *SHORT]) == 0
    whole, resumed = (tokenstn.load(folder / "model").state_dict() for folder in (run, out))
    for key, value in whole.items():
        assert torch.equal(value, resumed[key]), key


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "there is no data set 'nowhere'"),
        (["digits", "--recipe", "ours"], "unknown recipe 'ours'"),
        (["digits", "--classifier", "resnet51"], "neither a model folder nor a timm name"),
        (["digits", "--epochs", "0"], "epochs=0: at least 1"),
        (["digits", "--resume", "true"], "no run in"),
        (
            ["digits", "--classifier", "resnet18", "--input_size", "500000"],
            "--input_size 500000: the side of the images",
        ),
    ],
)
def test_a_mistake_gets_a_sentence_and_leaves_nothing_behind(tmp_path, capsys, arguments, sentence):
    out = tmp_path / "run"
    assert main(["train", *arguments, "--out", str(out), "--progress", "false"]) == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said
    assert not out.exists()


def test_a_config_with_an_unknown_key_is_refused(tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text("images: digits\nepoch: 3\n")
    assert main(["train", "--config", str(config)]) == 2
    assert capsys.readouterr().err == "tokenstn train: there is no setting 'epoch': did you mean epochs?\n"


BETWEEN = "with commas between them and no spaces"
COMMAS = f"--primitives takes words {BETWEEN}, such as --primitives rotation,scale"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("train digits --clasifier resnet18", "there is no option --clasifier: did you mean --classifier?"),
        ("predict model photos --batch-size=3", "there is no option --batch-size: did you mean --batch_size?"),
        ("predict model photos --format csv", "there is no option --format: tokenstn predict --help names the options"),
        ("train digits --primitives rotation scale", COMMAS),
        ("train digits --primitives rotation, scale", COMMAS),
        ("train digits --primitives [rotation, scale]", COMMAS),
        ("train digits --primitives=[rotation, scale] --epochs 3", COMMAS),
        ("bench x --seeds 1 2 3", f"--seeds takes whole numbers {BETWEEN}, such as --seeds 1,2"),
        ("train digits --epochs many", "--epochs many: give a whole number"),
        ("train digits --upright maybe", "--upright maybe: give auto, yes or no"),
        ("train digits --labels maybe", "--labels maybe: give true or false"),
        ("predict model photos --views many", "--views many: give a whole number or auto"),
        ("diagnose resnet18", "it needs IMAGES: tokenstn diagnose --help names the options"),
        ("predict model a.jpg b.jpg", "'b.jpg' is one word too many: tokenstn predict takes MODEL IMAGES and options; "
         "what has a space in it goes in quotes"),
    ],
)  # fmt: skip
def test_a_call_that_cannot_be_read_gets_one_sentence(capsys, given, sentence):
    assert main(given.split()) == 2
    assert capsys.readouterr().err == f"tokenstn {given.split()[0]}: {sentence}\n"


def test_a_command_that_there_is_not_gets_one_sentence(capsys):
    assert main(["trian", "digits"]) == 2
    assert capsys.readouterr().err == "tokenstn: there is no command 'trian': did you mean train?\n"


def test_a_list_in_a_config_that_is_none_is_refused(tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text("images: digits\nprimitives: '[rotation,'\n")
    assert main(["train", "--config", str(config)]) == 2
    said = "tokenstn train: --primitives [rotation,: give words with commas between them and no spaces\n"
    assert capsys.readouterr().err == said


def test_no_command_at_all_shows_the_help(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0 and "exit codes" in capsys.readouterr().out


def test_debug_shows_where_it_broke():
    with pytest.raises(ValueError, match="unknown recipe"):
        main(["--debug", "train", "digits", "--recipe", "ours"])


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert "train" in said and "convert" in said


def test_a_list_is_words_with_commas_or_in_brackets():
    for given in (
        ["--primitives", "rotation,scale"],
        ["--primitives=rotation,scale"],
        ["--primitives=[rotation,scale]"],
    ):
        assert _with_lists(["train", "photos", *given])[-1].endswith("[rotation,scale]")
    assert _with_lists(["train", "a=b", "--out", "x=y,z"]) == ["train", "a=b", "--out", "x=y,z"]
    assert _with_lists(["bench", "rotmnist", "--seeds", "3", "--quick"]) == [
        "bench",
        "rotmnist",
        "--seeds=[3]",
        "--quick",
    ]


def test_it_says_its_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and tokenstn.__version__ in capsys.readouterr().out


def test_a_checkpoint_is_converted(tmp_path, capsys):
    network = small_vit(in_chans=1)
    torch.save({"state_dict": tokenstn.TokenSTN("resnet18", ()).classifier.state_dict()}, tmp_path / "weights.pth")
    assert main(["convert", str(tmp_path / "weights.pth"), "--arch", "resnet18", "--out", str(tmp_path / "model")]) == 0
    assert "224×224 px" in capsys.readouterr().out, "a checkpoint does not say how its images were prepared"
    assert tokenstn.load(tmp_path / "model").primitives == ()
    prepared = ["--input_size", "96", "--mean", "0.5,0.5,0.5", "--std=[0.25,0.25,0.25]"]
    there = ["convert", str(tmp_path / "weights.pth"), "--arch", "resnet18", "--out", str(tmp_path / "other")]
    assert main([*there, *prepared]) == 0
    assert tokenstn.load(tmp_path / "other").preprocessing == tokenstn.Preprocessing((96, 96), (0.5,) * 3, (0.25,) * 3)
    assert main([*there, "--input_size", "96"]) == 2
    assert "go together" in capsys.readouterr().err
    torch.save(network.state_dict(), tmp_path / "other.pth")
    unfit = ["convert", str(tmp_path / "other.pth"), "--arch", "resnet18"]
    assert main(unfit) == 2
    assert "holds a model: choose another --out" in capsys.readouterr().err, "which is the folder other"
    assert main([*unfit, "--overwrite=true"]) == 2
    assert "does not hold the weights of resnet18" in capsys.readouterr().err
