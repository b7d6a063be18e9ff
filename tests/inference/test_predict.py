"""Many images through a model: every one once, whatever happens; poses in pixels and degrees of the photo."""

import copy
import csv
import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import tokenstn
from tokenstn.data import ImageTable, fit, read_image, to_float
from tokenstn.geometry import Pose, fit_matrix, invert
from tokenstn.inference.shards import ShardFolder
from tokenstn.verbs.predict import predict

from ..data.pictures import noise
from ..models.flags import some_thresholds
from .known_pose import known_model

QUIET = {"accelerator": "cpu", "progress": False, "workers": 0}


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Photos of several sizes, and two files that are none."""
    folder = tmp_path_factory.mktemp("photos")
    for number, (height, width) in enumerate([(40, 40), (30, 50), (64, 37), (33, 33), (50, 30)]):
        Image.fromarray(noise(height, width, seed=number)).save(folder / f"{number}.png")
    (folder / "broken.png").write_bytes((folder / "0.png").read_bytes()[:90])
    (folder / "empty.jpg").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def model() -> tokenstn.TokenSTN:
    pose = Pose.of(rotation=torch.tensor(0.5), scale=torch.tensor(0.8), translation=torch.tensor([0.25, -0.125]))
    names = ("rotation", "scale", "translation")
    return known_model(pose, names, classes=list("abcde"), thresholds=some_thresholds())


@pytest.fixture(scope="module")
def done(photos, model, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("out") / "one"
    predict(model, photos, str(out), batch_size=2, shard_size=3, **QUIET)
    return out


def rows_of(out: Path) -> pd.DataFrame:
    return pd.read_parquet(out / "predictions")


def rejected_of(out: Path) -> dict[str, str]:
    with (out / "rejected.csv").open(newline="") as file:
        return {Path(row["path"]).name: row["reason"] for row in csv.DictReader(file)}


def test_every_image_is_predicted_or_rejected_with_a_reason(done):
    found = rows_of(done)
    assert sorted(Path(path).name for path in found["path"]) == [f"{number}.png" for number in range(5)]
    rejected = rejected_of(done)
    assert rejected.keys() == {"broken.png", "empty.jpg"}
    assert "truncated or corrupt" in rejected["broken.png"] and rejected["empty.jpg"] == "the file is empty"
    assert sorted(path.name for path in (done / "predictions").iterdir()) == [f"part-{k:06d}.parquet" for k in range(3)]


def test_the_answers_are_those_of_the_model(done, photos, model):
    preprocessing = model.preprocessing
    for row in rows_of(done).to_dict("records"):
        image = to_float(fit(read_image(row["path"]), preprocessing.size)[None], preprocessing.mean, preprocessing.std)
        with torch.no_grad():
            p = model(image)
        order = p.probabilities[0].argsort(descending=True).tolist()
        assert list(row["top_classes"]) == ["abcde"[k] for k in order] and row["prediction"] == "abcde"[order[0]]
        np.testing.assert_allclose(row["top_probabilities"], p.probabilities[0][order], atol=1e-6)
        assert row["probability"] == pytest.approx(p.probabilities.max().item(), abs=1e-6)
        assert row["pose_ambiguous"] == p.pose_ambiguous.item() and row["class_uncertain"] == p.class_uncertain.item()
        assert row["views"] == (p.views.weights > 0).sum().item()
        assert row["disagreement"] == pytest.approx(p.disagreement.item(), abs=1e-6)
        assert row["entropy_rotation"] == p.entropy["rotation"].item() == 0.0


def test_poses_are_those_of_the_photo(done):
    """A landmark that the network's pose moves is moved in the photo by what the row says."""
    for row in rows_of(done).to_dict("records"):
        height, width = read_image(row["path"]).shape[1:]
        assert row["rotation_deg"] == pytest.approx(math.degrees(0.5), abs=1e-3)
        assert row["scale"] == pytest.approx(0.8, abs=1e-5)
        fitted = fit_matrix((height, width), (32, 32))
        centre = invert(fitted) @ torch.tensor([0.25, -0.125, 1.0], dtype=torch.float64)  # where M puts the centre
        start = invert(fitted) @ torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
        turn = Pose.of(rotation=torch.tensor(0.5, dtype=torch.float64), scale=0.8).matrix
        moved = (turn @ start)[:2] * min(height, width) / 2 + torch.tensor(
            [row["translation_x_px"], row["translation_y_px"]], dtype=torch.float64
        )
        torch.testing.assert_close(moved, centre[:2] * min(height, width) / 2, atol=1e-4, rtol=0)


def test_under_squash_a_turn_stays_a_turn(tmp_path):
    Image.fromarray(noise(20, 60)).save(tmp_path / "wide.png")
    pose = Pose.of(rotation=torch.tensor(1.0), translation=torch.tensor([0.5, 0.5]))
    model = known_model(pose, ("rotation", "translation"), resize="squash")
    predict(model, tmp_path / "wide.png", str(tmp_path / "out"), **QUIET)
    row = rows_of(tmp_path / "out").iloc[0]
    assert row["rotation_deg"] == pytest.approx(math.degrees(1.0), abs=1e-3)
    assert (row["translation_x_px"], row["translation_y_px"]) == (
        pytest.approx(15, abs=1e-3),
        pytest.approx(5, abs=1e-3),
    )


def test_a_mirrored_photo_is_mirrored_left_right_with_the_angle_that_goes_with_it(tmp_path):
    Image.fromarray(noise(30, 30)).save(tmp_path / "a.png")
    mirror_after_turn = torch.diag(torch.tensor([-1.0, 1.0, 1.0])) @ Pose.of(rotation=torch.tensor(0.3)).matrix
    pose = tokenstn.geometry.decompose(mirror_after_turn)
    predict(known_model(pose, ("rotation", "reflection")), tmp_path, str(tmp_path / "out"), **QUIET)
    row = rows_of(tmp_path / "out").iloc[0]
    assert row["mirrored"] and row["rotation_deg"] == pytest.approx(math.degrees(0.3), abs=1e-3)


def test_what_a_model_does_not_have_is_no_column_or_empty(photos, tmp_path):
    bare = known_model(Pose.of(), ())
    predict(bare, photos, str(tmp_path), **QUIET)
    found = rows_of(tmp_path)
    assert not [name for name in found if name.startswith(("rotation", "scale", "entropy", "translation", "mirrored"))]
    assert found["pose_ambiguous"].isna().all() and found["class_uncertain"].isna().all()
    assert (found["views"] == 1).all() and set(found["prediction"]) <= set("01234")


def test_boxes_are_cut_out_and_are_the_frame_of_the_pose(tmp_path, model):
    pixels = noise(60, 80)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    Image.fromarray(pixels[10:50, 5:45]).save(tmp_path / "part.png")
    (tmp_path / "boxes.csv").write_text("path,left,top,right,bottom\nphoto.png,5,10,45,50\nphoto.png,70,10,90,50\n")
    predict(model, tmp_path / "boxes.csv", str(tmp_path / "boxes"), **QUIET)
    predict(model, tmp_path / "part.png", str(tmp_path / "part"), **QUIET)
    cut, whole = rows_of(tmp_path / "boxes"), rows_of(tmp_path / "part")
    assert cut.loc[0, ["left", "top", "right", "bottom"]].tolist() == [5, 10, 45, 50]
    for column in ("probability", "rotation_deg", "translation_x_px", "translation_y_px"):
        assert cut.loc[0, column] == pytest.approx(whole.loc[0, column], abs=1e-5)
    assert "reaches outside the photo" in rejected_of(tmp_path / "boxes")["photo.png"]


def test_several_labels_are_written_as_a_manifest_writes_them(photos, tmp_path):
    model = known_model(Pose.of(rotation=torch.tensor(0.0)), multi_label=True, classes=list("abcde"))
    with torch.no_grad():
        model.classifier.head.weight.zero_()
        model.classifier.head.bias.copy_(torch.tensor([2.0, -1.0, 3.0, -2.0, -3.0]))
    predict(model, photos, str(tmp_path), **QUIET)
    assert set(rows_of(tmp_path)["prediction"]) == {"a;c"}


def test_the_settings_say_what_poses_mean(done, model):
    settings = json.loads((done / "predict.json").read_text())
    assert settings["poses"] == "absolute" and settings["primitives"] == ["rotation", "scale", "translation"]


class ManyImages(torch.utils.data.Dataset):
    """500 small images, made when they are asked for; every 50th cannot be read."""

    def __len__(self) -> int:
        return 500

    def __getitem__(self, index: int) -> torch.Tensor:
        if index % 50 == 7:
            raise OSError("a scratch on the disk")
        time.sleep(0.001)
        return torch.full((3, 32, 32), index % 251, dtype=torch.uint8)


def many() -> ImageTable:
    from tokenstn.data.items import DatasetMember

    images = ManyImages()
    return ImageTable("many", [DatasetMember(images, row) for row in range(500)], torch.full((500,), -1))


def start(model, out: str) -> multiprocessing.Process:
    """In a process of its own, as if called anew."""
    settings = {**QUIET, "batch_size": 8, "shard_size": 16, "views": 1}
    process = multiprocessing.get_context("fork").Process(target=predict, args=(model, many(), out), kwargs=settings)
    process.start()
    return process


def test_killed_twice_it_goes_on_and_no_image_is_lost_or_doubled(model, tmp_path):
    out = tmp_path / "out"
    for wanted in (5, 17):
        process = start(model, str(out))
        while len(list(out.glob("predictions/part-*"))) < wanted and process.is_alive():
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
    there = {path.name: path.stat().st_mtime_ns for path in out.glob("predictions/part-*")}
    assert 17 <= len(there) < 32 and not (out / "rejected.csv").exists()
    process = start(model, str(out))
    process.join()
    assert process.exitcode == 0
    found = rows_of(out)["path"].tolist()
    wanted = [f"ManyImages[{row}]" for row in range(500) if row % 50 != 7]
    assert found == wanted and len(rejected_of(out)) == 10
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("predictions/part-*")}
    assert len(after) == 32 and all(after[name] == moment for name, moment in there.items())  # nothing was done twice
    assert not list(out.rglob("*unfinished*"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"images": "other"}, "other images"),
        ({"model": "other"}, "another model"),
        ({"views": 2}, "views='auto', not 2"),
        ({"shard_size": 4}, "shard_size=3, not 4"),
    ],
)
def test_a_job_does_not_go_on_with_something_else(done, photos, model, tmp_path, change, sentence):
    before = {path: path.read_bytes() for path in sorted(done.rglob("*.*"))}
    Image.fromarray(noise(9, 9)).save(tmp_path / "new.png")
    settings = {"batch_size": 2, "shard_size": 3, **QUIET}
    settings |= {name: value for name, value in change.items() if name not in ("images", "model")}
    other = model
    if "model" in change:
        other = copy.deepcopy(model)
        with torch.no_grad():
            other.classifier.head.bias[0] += 1e-6
    with pytest.raises(ValueError, match=sentence):
        predict(other, tmp_path if "images" in change else photos, str(done), **settings)
    assert {path: path.read_bytes() for path in sorted(done.rglob("*.*"))} == before


def test_called_again_a_finished_job_is_left_as_it_is(done, photos, model):
    before = {path.name: path.stat().st_mtime_ns for path in (done / "predictions").iterdir()}
    result = predict(model, photos, str(done), batch_size=2, shard_size=3, **QUIET)
    assert {path.name: path.stat().st_mtime_ns for path in (done / "predictions").iterdir()} == before
    assert (result.summary.predicted, result.summary.rejected) == (5, 2)
    assert result.summary.median_rotation_deg == pytest.approx(math.degrees(0.5), abs=1e-3)


def test_overwriting_begins_anew_and_leaves_other_files_alone(photos, model, tmp_path):
    predict(model, photos, str(tmp_path), shard_size=2, **QUIET)
    (tmp_path / "mine.txt").write_text("keep")
    predict(model, photos / "0.png", str(tmp_path), overwrite=True, **QUIET)
    assert len(rows_of(tmp_path)) == 1 and rejected_of(tmp_path) == {}
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_a_shard_that_lacks_an_image_is_not_written(tmp_path):
    import pyarrow as pa

    job = ShardFolder(tmp_path, "s.json", "parts", images=5, shard_size=3, settings={})
    job.begin()
    with pytest.raises(RuntimeError, match="shard 0 has 1 rows and 1 rejected"):
        job.write(0, pa.table({"path": ["a"]}), [("b", "broken")])
    assert job.missing() == [0, 1] and [list(job.rows(shard)) for shard in (0, 1)] == [[0, 1, 2], [3, 4]]


def test_two_processes_share_the_work(photos, model, tmp_path):
    folder = tmp_path / "model"
    tokenstn.TokenSTN(model.classifier, ("rotation",), preprocessing=model.preprocessing).save_pretrained(folder)
    command = [
        sys.executable, "-m", "tokenstn.cli", "predict", str(folder), str(photos), "--accelerator=cpu",
        "--shard_size=2", "--workers=0", "--progress=false", "--out",
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [*command, str(tmp_path / "two"), "--devices=2"], capture_output=True, text=True, env=environment, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "2 processes" in ran.stdout and ran.stdout.count("5 predicted, 2 could not be read") == 1
    predict(str(folder), photos, str(tmp_path / "one"), shard_size=2, **QUIET)
    pd.testing.assert_frame_equal(rows_of(tmp_path / "two"), rows_of(tmp_path / "one"))
