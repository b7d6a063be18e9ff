"""Commands that are told to stop or run out of disk: exit codes, sentences, and nothing that was there is lost."""

import os
import signal
import sys
from pathlib import Path

import pandas as pd
import pytest

from tokenstn.cli import main
from tokenstn.inference.shards import ShardFolder
from tokenstn.system.processes import DeadProcessError

from ..system.small_disk import make_read_only, small_disk
from ..verbs.folders import blank_page, digit_photos, few_digits, model_folder

FAST = ["--accelerator=cpu", "--progress=false", "--workers=0"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return digit_photos(tmp_path_factory.mktemp("data") / "photos", 8)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return model_folder(tmp_path_factory.mktemp("models") / "model")


def predict(model: Path, photos: Path, out: Path) -> int:
    return main(["predict", str(model), str(photos), f"--out={out}", "--shard_size=2", "--batch_size=2", *FAST])


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_told_to_stop_says_so_and_goes_on_later(
    model, photos, tmp_path, capsys, monkeypatch, number, code
):
    assert predict(model, photos, tmp_path / "whole") == 0
    whole_write = ShardFolder.write

    def write(self, shard, table, rejected) -> None:
        if shard == 2:
            os.kill(os.getpid(), number)
        whole_write(self, shard, table, rejected)

    with monkeypatch.context() as patch:
        patch.setattr(ShardFolder, "write", write)
        assert predict(model, photos, tmp_path / "cut") == code
    said = capsys.readouterr().err
    assert ("interrupted" if number == signal.SIGINT else "stopped by SIGTERM") in said and "Traceback" not in said
    assert sorted(path.name for path in (tmp_path / "cut" / "predictions").iterdir()) == [
        "part-000000.parquet",
        "part-000001.parquet",
    ]
    assert predict(model, photos, tmp_path / "cut") == 0
    rows = [pd.read_parquet(tmp_path / name / "predictions") for name in ("whole", "cut")]
    pd.testing.assert_frame_equal(*rows)


def test_a_process_that_died_is_a_sentence_and_exit_code_1(model, photos, tmp_path, capsys, monkeypatch):
    def write(self, *_) -> None:
        raise DeadProcessError("a process that reads images has died")

    monkeypatch.setattr(ShardFolder, "write", write)
    assert predict(model, photos, tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert said == "tokenstn predict: a process that reads images has died\n"


@pytest.mark.parametrize(
    ("verb", "where"),
    [
        ("predict", "tokenstn.inference.stream.ImageDataset.__getitem__"),
        ("predict", "tokenstn.inference.predict.ShardFolder.write"),
        ("rectify", "tokenstn.inference.stream.ImageDataset.__getitem__"),
        ("rectify", "tokenstn.inference.rectify_job.ThreadPoolExecutor.map"),
        ("rectify", "tokenstn.inference.rectify_job.ThreadPoolExecutor.shutdown"),
    ],
)
def test_torch_may_tell_of_a_death_at_any_place(model, photos, tmp_path, capsys, monkeypatch, verb, where):
    """Its handler of SIGCHLD raises in whatever the main thread is doing."""

    def killed(*_, **__) -> None:
        raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")

    monkeypatch.setattr(where, killed)
    assert main([verb, str(model), str(photos), f"--out={tmp_path / 'out'}", *FAST]) == 1
    said = capsys.readouterr().err
    assert f"tokenstn {verb}: a process that reads images has died" in said and "Traceback" not in said


def test_the_exit_codes_are_where_users_look(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tokenstn", "--help"])
    with pytest.raises(SystemExit):
        main()
    said = " ".join(capsys.readouterr().out.split())
    assert "2 refused" in said and "130 interrupted (Ctrl-C)" in said and "143 terminated (SIGTERM)" in said


def test_on_a_full_disk_predictions_wait_for_more_room(model, photos, tmp_path, capsys):
    with small_disk(tmp_path / "disk", kilobytes=24) as disk:
        assert predict(model, photos, disk / "out") == 2
        said = capsys.readouterr().err
        assert "could not be written, because the disk is full: make room and call it again" in said
        assert "Traceback" not in said
        kept = [path for path in (disk / "out").rglob("*.parquet") if not path.name.startswith(".")]
        assert kept and all(len(pd.read_parquet(path)) == 2 for path in kept)


def test_an_evaluation_is_not_given_up_for_one_that_does_not_fit(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tokenstn.verbs.evaluation_folder.write_report", blank_page)
    data = few_digits(tmp_path)
    with small_disk(tmp_path / "disk", kilobytes=1000) as disk:
        words = ["evaluate", str(model), f"--data={data}", f"--out={disk / 'out'}", "--limit=6", "--order=2"]
        words += ["--accelerator=cpu", "--progress=false", "--cost=false", "--controls=false"]
        assert main(words) == 0
        before = everything(disk)
        ballast = leave_room(disk, 8192)
        assert main([*words, "--overwrite=true"]) == 2
        assert "metrics.json could not be written, because the disk is full" in capsys.readouterr().err
        ballast.unlink()
        assert everything(disk) == before


def leave_room(disk: Path, size: int) -> Path:
    """Fill a disk but for so many bytes; the file that takes the rest."""
    room = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(room.f_bavail * room.f_frsize - size))
    return disk / "ballast"


@pytest.mark.parametrize("verb", ["predict", "evaluate", "export", "train", "bench"])
def test_a_read_only_folder_is_refused_before_anything_is_computed(model, photos, tmp_path, capsys, verb):
    with small_disk(tmp_path / "disk", kilobytes=100) as disk:
        make_read_only(disk)
        words = {
            "predict": [str(model), str(photos)],
            "evaluate": [str(model), "--data=digits"],
            "export": [str(model)],
            "train": ["digits"],
            "bench": ["rotmnist", f"--cache={tmp_path / 'cache'}"],
        }[verb]
        assert main([verb, *words, f"--out={disk / 'out'}", "--progress=false"]) == 2
        assert "disk that is read-only: choose another place" in capsys.readouterr().err
