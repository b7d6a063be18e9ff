"""A whole benchmark, small: what it leaves, what a failure does, and what a second start computes again."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tokenstn.benchmark.run import Equipment, run_task
from tokenstn.benchmark.significance import answers_of, right_of
from tokenstn.benchmark.task import folder_of
from tokenstn.evaluation.bench_results import BenchResults
from tokenstn.evaluation.evaluate import evaluate
from tokenstn.models import AutoViews
from tokenstn.models.call_settings import precision_of
from tokenstn.reports.bench import read_bench, render_bench
from tokenstn.verbs.bench import bench

from .tiny import rows, tiny, written

QUIET = {"accelerator": "cpu", "processes": 1, "progress": False}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """The tensors are small: more threads only wait for each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> tuple[Path, BenchResults]:
    """A bench with a row that fails, one that stays empty, data that are not there, and two tries for one row."""
    folder = tmp_path_factory.mktemp("bench")
    document = tiny(
        seeds=[0, 1],
        data={
            "digits": {"source": "digits", "limit": {"train": 40, "val": 24, "test": 12}},
            "photos": {"source": "no/such/folder"},
        },
        methods=rows(
            "vanilla",
            "stn",
            broken={"method": "tokenstn", "options": {"shared": 99}},
            later={"method": "stn", "missing": "nobody has built it"},
            tokenstn={**tiny()["methods"]["tokenstn"], "tune": [{}, {"recipe": {"rate": 0.05}}]},
        ),
        tuning={"tries": 2},
        evaluation={"batch_size": 12, "draws": 2, "cost": True, "cost_views": [0, 2]},
        reported={"digits": {"upright": {"stn": 97.5}}},
    )
    found = bench(written(folder, document), out=str(folder / "results"), cache=str(folder / "cache"), **QUIET)
    assert found.results is not None
    return folder, found.results


def states(results: BenchResults) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for cell in results.cells:
        found.setdefault((cell.row, cell.data), set()).add(cell.state)
    return found


def test_a_failing_cell_is_reported_and_the_others_finish(ran):
    folder, results = ran
    found = states(results)
    assert found["vanilla", "digits"] == found["stn", "digits"] == found["tokenstn", "digits"] == {"done"}
    assert found["broken", "digits"] == {"failed"}
    (reason,) = {cell.reason for cell in results.cells if cell.row == "broken" and cell.data == "digits"}
    assert "shared=99" in reason
    assert any("shared=99" in path.read_text() for path in (folder / "cache").glob("*/error.txt"))


def test_how_sure_one_view_has_to_be_is_found_before_a_cell_is_judged_and_kept_with_it(ran):
    folder, results = ran
    ours = [cell for cell in results.cells if cell.row == "tokenstn" and cell.state == "done"]
    for cell in ours:
        kept = json.loads((folder / "cache" / folder_of("cell", cell.key) / "result.json").read_text())
        assert kept["enough"]["looked"] == 24 * 4 and kept["enough"]["auto"]["most"] == AutoViews().most
    assert len(ours) == 2


@pytest.mark.parametrize(("asked", "judged"), [("32-true", "float32"), ("bf16-mixed", "bfloat16")])
def test_cells_are_judged_in_the_precision_that_the_experiment_asks_for(asked, judged, tmp_path, monkeypatch):
    heard: list[str] = []

    def listened(*arguments, **settings):
        heard.append(precision_of(torch.zeros(1)))
        return evaluate(*arguments, **settings)

    def in_this_process(tasks, cache, *_, **__):  # where a patch reaches
        for task in tasks:
            run_task(task, cache, Equipment())

    monkeypatch.setattr("tokenstn.benchmark.run.evaluate", listened)
    monkeypatch.setattr("tokenstn.benchmark.conduct.run_all", in_this_process)
    document = tiny(methods=rows("vanilla"), reference="vanilla", precision=asked)
    bench(written(tmp_path, document), out=str(tmp_path / "results"), cache=str(tmp_path / "cache"), **QUIET)
    assert heard == [judged]


def test_what_is_not_at_hand_is_an_empty_row_with_the_reason(ran):
    _, results = ran
    found = states(results)
    assert found["later", "digits"] == {"absent"} and found["vanilla", "photos"] == {"absent"}
    page = (ran[0] / "results" / "tiny.md").read_text()
    assert "later: not run, nobody has built it" in page and "no/such/folder" in page


def test_results_say_where_they_come_from(ran):
    folder, results = ran
    (digits, photos) = results.data
    assert digits.images == {"train": 40, "val": 24, "test": 12} and len(digits.sha256["test"]) == 64
    assert photos.missing is not None
    assert {"tokenstn", "torch", "timm", "python"} <= set(results.versions)
    assert results.hardware["devices"].startswith("cpu") and results.seeds == (0, 1)
    assert results.command.startswith("tokenstn bench") and "tiny.yaml" in results.command
    assert [one.training for one in results.classifiers] == ["vanilla", "vanilla"]
    assert len({one.weights_sha256 for one in results.classifiers}) == 2  # retrained for each seed
    for cell in results.cells:
        if cell.state == "done":
            assert (folder / "cache" / folder_of("cell", cell.key)).is_dir()
            assert cell.evaluate_seconds and cell.device and cell.cost is not None
    assert results.orbits[0].elements == 4


def test_tuning_is_judged_on_validation_images_and_says_what_it_tried(ran):
    folder, results = ran
    (tuning,) = [one for one in results.tuning if one.row == "tokenstn"]
    scores = [one.score for one in tuning.tries]
    assert len(scores) == 2 and tuning.chosen == scores.index(max(scores))
    for one in tuning.tries:
        config = json.loads((folder / "cache" / folder_of("cell", one.key) / "config.json").read_text())
        assert config["split"] == "val" and "test" not in config["images"]
    rate = {0: 1e-3, 1: 0.05}[tuning.chosen]
    assert all(c.settings["recipe"]["rate"] == rate for c in results.cells_of("tokenstn", "digits"))


def test_flips_are_counted_against_the_vanilla_classifier_of_the_same_seed(ran):
    folder, results = ran
    for seed in (0, 1):
        mine, base = (next(c for c in results.cells_of(row, "digits") if c.seed == seed) for row in ("stn", "vanilla"))
        ours, theirs = (answers_of(folder / "cache" / folder_of("cell", c.key), "rotation") for c in (mine, base))
        assert ours is not None and theirs is not None
        now, before = right_of(ours) > 0.5, right_of(theirs) > 0.5
        counts = mine.orbits["rotation"].flips
        assert counts is not None
        assert counts.overall.fixed == int((now & ~before).sum()) and counts.overall.broken == int(
            (~now & before).sum()
        )
        assert counts.overall.base_right == int(before.sum())
        assert mine.orbits["rotation"].mean == pytest.approx(now.double().mean().item())


def test_the_paired_difference_is_that_of_the_answers(ran):
    results = ran[1]
    found = results.comparison("stn", "digits", "rotation")
    assert found is not None
    differences = []
    for seed in (0, 1):
        a, b = (
            next(c for c in results.cells_of(row, "digits") if c.seed == seed).orbits["rotation"].mean
            for row in ("stn", "tokenstn")
        )
        differences.append(a - b)
    assert found.by_seed == pytest.approx(differences)
    assert found.difference.value == pytest.approx(sum(differences) / 2)
    assert found.difference.low <= found.difference.value <= found.difference.high


def test_everything_is_rendered_from_the_json_alone(ran):
    folder, results = ran
    path = folder / "results" / "tiny.json"
    assert read_bench(path) == results
    before = {file.name: file.read_text() for file in path.parent.iterdir() if file != path}
    for name in before:
        (path.parent / name).unlink()
    again = {file.name: file.read_text() for file in render_bench(path)}
    assert again == before and set(again) == {"tiny.md", "tiny.tex", "tiny-pareto.svg"}


def test_a_second_start_computes_nothing_but_what_failed(ran, capsys):
    folder, results = ran
    stamps = {path: path.stat().st_mtime_ns for path in (folder / "cache").glob("*/result.json")}
    again = bench(str(folder / "tiny.yaml"), out=str(folder / "again"), cache=str(folder / "cache"), **QUIET)
    assert {path: path.stat().st_mtime_ns for path in (folder / "cache").glob("*/result.json")} == stamps
    assert again.results is not None and again.results.cells == results.cells
    said = capsys.readouterr().out
    assert "8 with 2 seeds, 6 finished" in said and "2 on validation images (2 for each row), 2 finished" in said


def test_finished_cells_do_not_ask_for_their_weights_again(ran, tmp_path):
    folder, results = ran
    finished = {cell.key for cell in results.cells if cell.state == "done"}
    finished |= {one.key for tuning in results.tuning for one in tuning.tries if one.key}
    for key in finished:
        name = folder_of("cell", key)
        shutil.copytree(folder / "cache" / name, tmp_path / "cache" / name)
    call = {"out": str(tmp_path / "results"), "cache": str(tmp_path / "cache"), **QUIET}
    again = bench(str(folder / "tiny.yaml"), methods="vanilla,stn,tokenstn", **call)
    assert again.results is not None
    for row in ("vanilla", "stn", "tokenstn"):
        accuracies = [
            [cell.orbits["rotation"].mean for cell in one.cells_of(row, "digits")] for one in (results, again.results)
        ]
        assert accuracies[0] == accuracies[1]
    assert {path.name.split("-")[0] for path in (tmp_path / "cache").iterdir()} == {"cell"}


def test_what_was_judged_with_another_training_of_a_frozen_classifier_is_judged_again(ran, tmp_path):
    folder, results = ran
    shutil.copytree(folder / "cache", tmp_path / "cache")
    place = {
        row: tmp_path / "cache" / folder_of("cell", results.cells_of(row, "digits")[0].key) / "result.json"
        for row in ("vanilla", "stn", "tokenstn")
    }
    before = {row: json.loads(path.read_text()) for row, path in place.items()}
    for row, path in place.items():
        path.write_text(json.dumps({**before[row], "classifier_sha256": "of another day", "seconds": -1.0}))
    call = {"out": str(tmp_path / "results"), "cache": str(tmp_path / "cache"), **QUIET}
    again = bench(str(folder / "tiny.yaml"), methods="vanilla,stn,tokenstn", **call).results
    assert again is not None
    after = {row: json.loads(path.read_text()) for row, path in place.items()}
    frozen = {cell.row: cell.settings["recipe"] is None or cell.settings["recipe"]["classifier"] == "frozen"
              for cell in again.cells if cell.state == "done"}  # fmt: skip
    assert frozen["vanilla"] and frozen["tokenstn"]
    for row, path in place.items():
        assert (after[row]["seconds"] >= 0) == frozen[row], path
    done = [cell for cell in again.cells if cell.state == "done" and cell.seed == 0]
    weights = {cell.classifier_sha256 for cell in done if frozen[cell.row]}
    assert weights == {before["vanilla"]["classifier_sha256"]}


@pytest.mark.slow
def test_a_killed_bench_goes_on_where_it_was(tmp_path):
    path = written(tmp_path, tiny(methods=rows("vanilla", "augmented", "tta", "stn")))
    call = {"experiment": path, "out": str(tmp_path / "results"), "cache": str(tmp_path / "cache"), **QUIET}
    script = f"from tokenstn.verbs.bench import bench; bench(**{call!r})"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL, env={**os.environ})

    def finished() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("*/result.json")}

    deadline = time.monotonic() + 600  # a busy machine may be slow
    while len(finished()) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.5)  # its worker sees that it is alone, and ends
    before = finished()
    assert process.returncode == -signal.SIGKILL and 3 <= len(before) < 7, "it was to be killed in the middle"
    assert not (tmp_path / "results").exists()
    found = bench(**call)
    after = finished()
    assert found.results is not None and all(cell.state == "done" for cell in found.results.cells)
    assert {path: after[path] for path in before} == before and len(after) == 7  # 2 classifiers, 1 training, 4 cells


def test_the_weights_in_the_cache_give_the_answers_again(ran):
    from tokenstn.benchmark.cache import Cache
    from tokenstn.benchmark.conduct import Conductor
    from tokenstn.benchmark.files import read_experiment
    from tokenstn.benchmark.run import _ready_method
    from tokenstn.benchmark.tables import open_place
    from tokenstn.evaluation.orbit import answer_orbit
    from tokenstn.evaluation.photos import load_photos

    folder, _ = ran
    conductor = Conductor(read_experiment(str(folder / "tiny.yaml")), Cache(folder / "cache"), ())
    plan = next(plan for plan in conductor._cells(conductor._tunings()) if plan.row == "stn")
    table = open_place(plan.cell.place)
    model = _ready_method(plan.cell, conductor.cache, table)
    assert model.preprocessing is not None
    from tokenstn.geometry import rotation_group

    photos = load_photos(table, table.split("test"), model.preprocessing, 12)
    said = answer_orbit(model, photos, rotation_group(4))
    kept = answers_of(folder / "cache" / plan.cell.folder, "rotation")
    assert said.rectified is not None and kept is not None and kept.rectified is not None
    assert torch.equal(said.rectified.correct, kept.rectified.correct)
