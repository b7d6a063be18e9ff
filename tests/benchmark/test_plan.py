"""From an experiment to tasks: what is shared, what depends on what, and what a change makes new."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import timm
import torch

from tokenstn import Preprocessing, TokenSTN
from tokenstn.benchmark.experiment import DataSpec, experiment_from
from tokenstn.benchmark.plan import Planner, in_order
from tokenstn.benchmark.tables import Place, describe, held, open_place
from tokenstn.benchmark.tuning import tries_of
from tokenstn.data import open_images
from tokenstn.models import AutoViews, reading
from tokenstn.training import freezing

from ..data.pictures import picture
from .tiny import TINY, rows, tiny


def planner(**changes) -> Planner:
    made = Planner(experiment_from(tiny(**changes), "tiny", "tiny.yaml"))
    made.look_up()
    return made


def cell(made: Planner, row: str = "stn", seed: int = 0, **changes):
    spec = made.experiment.methods[row].changed(changes, "here")
    return made.cell(row, spec, next(iter(made.experiment.data)), seed)


def test_another_rule_of_what_is_read_trains_and_judges_ours_again(monkeypatch):
    rows = ("tokenstn", "stn")
    before = [cell(planner(), row) for row in rows]
    monkeypatch.setattr(reading, "RULE", reading.RULE + 1)
    ours, stn = (cell(planner(), row) for row in rows)
    assert ours.cell.key != before[0].cell.key and ours.training.key != before[0].training.key
    assert stn.cell.key == before[1].cell.key and ours.classifier.key == before[0].classifier.key


def test_who_says_what_to_read_follows_no_rule(monkeypatch):
    said = {"options": {"shared": 2, "localization_size": 0.5, "localization_tokens": 5}}
    before = cell(planner(), "tokenstn", **said)
    monkeypatch.setattr(reading, "RULE", reading.RULE + 1)
    assert cell(planner(), "tokenstn", **said).cell.key == before.cell.key


def test_another_rule_of_what_is_frozen_trains_again_what_learns_along(monkeypatch):
    joint = {"recipe": {"classifier": "joint"}}
    before = [cell(planner(), row, **changes) for row, changes in (("tokenstn", joint), ("tokenstn", {}), ("stn", {}))]
    monkeypatch.setattr(freezing, "RULE", freezing.RULE + 1)
    after = [cell(planner(), row, **changes) for row, changes in (("tokenstn", joint), ("tokenstn", {}), ("stn", {}))]
    assert [one.training.key == other.training.key for one, other in zip(before, after, strict=True)] == [
        False, True, True
    ]  # fmt: skip


def test_a_rate_that_recipes_did_not_have_changes_only_the_cells_that_name_one():
    plain, named = ({"recipe": {"classifier": "joint", "along_rate": rate}} for rate in (None, 1e-5))
    assert "along_rate" not in cell(planner(), "tokenstn", **plain).training.config["recipe"]
    keys = [cell(planner(), "tokenstn", **changes).training.key for changes in (plain, named)]
    assert keys[0] == cell(planner(), "tokenstn", recipe={"classifier": "joint"}).training.key != keys[1]


def classifier_of(folder, classes):
    network = timm.create_model("resnet10t", num_classes=len(classes), in_chans=1)
    TokenSTN(network, (), classes=classes, preprocessing=Preprocessing((32, 32), (0.5,), (0.5,))).save_pretrained(
        folder
    )
    return {"folder": str(folder), "trainings": {"vanilla": {}}}


def test_labels_follow_the_classes_of_a_classifier_that_is_given(tmp_path):
    backwards = tuple(map(str, reversed(range(10))))
    classifier = classifier_of(tmp_path / "backwards", backwards)
    place = planner(classifier=classifier, methods=rows("vanilla")).images("digits").place
    usual = planner(methods=rows("vanilla")).images("digits").place
    table, other = open_place(place), open_place(usual)
    assert table.classes == backwards and torch.equal(table.labels, 9 - other.labels)
    assert torch.equal(table.items, other.items)


def test_a_classifier_of_other_classes_is_refused_before_anything_runs(tmp_path):
    made = planner(classifier=classifier_of(tmp_path / "letters", tuple("abcdefghij")), methods=rows("vanilla"))
    assert "they must be the same" in made.missing["digits"]


def test_methods_of_a_seed_share_their_classifier_and_seeds_do_not():
    made = planner()
    stn, tokenstn = cell(made, "stn"), cell(made, "tokenstn")
    assert stn.classifier.key == tokenstn.classifier.key != cell(made, "stn", seed=1).classifier.key
    assert cell(made, "augmented").classifier.key != stn.classifier.key
    assert [task.kind for task in stn.tasks] == ["classifier", "training", "cell"]
    assert [task.kind for task in cell(made, "tta").tasks] == ["classifier", "cell"]  # nothing to train
    tasks = in_order([stn, tokenstn])
    assert len(tasks) == 5
    done: set[str] = set()
    for task in tasks:
        assert set(task.needs) <= done
        done.add(task.key)


def test_what_is_changed_is_computed_again_and_nothing_else():
    made = planner()
    usual = cell(made)
    keys = [task.key for task in usual.tasks]
    assert [task.key for task in cell(planner()).tasks] == keys
    slower = cell(made, recipe={"rate": 0.5})
    assert [a.key == b for a, b in zip(slower.tasks, keys, strict=True)] == [True, False, False]
    looked = cell(made, views=3)
    assert [a.key == b for a, b in zip(looked.tasks, keys, strict=True)] == [True, True, False]
    ours = [task.key for task in cell(made, "tokenstn").tasks]
    averaged = cell(made, "tokenstn", options={"auto": {"sure": None}})
    assert [a.key == b for a, b in zip(averaged.tasks, ours, strict=True)] == [True, True, False]
    other = tiny()["classifier"] | {"arguments": {"embed_dim": 32, "depth": 2, "num_heads": 2}}
    assert not {task.key for task in cell(planner(classifier=other)).tasks} & set(keys)
    orbit = cell(planner(orbits={"rotation": {"group": "rotation", "order": 8}}))
    assert [a.key == b for a, b in zip(orbit.tasks, keys, strict=True)] == [True, True, False]


def test_the_same_images_elsewhere_are_the_same_task_and_other_images_are_not(tmp_path):
    table = open_images("digits")
    pixels, labels = table.items[:60, 0].numpy(), table.labels[:60].numpy()

    def keys(name, x):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "few.npz", x_train=x[12:], y_train=labels[12:], x_test=x[:12], y_test=labels[:12])
        return [task.key for task in cell(planner(data={name: {"source": str(tmp_path / name / "few.npz")}})).tasks]

    first = keys("a", pixels)
    assert keys("b", pixels) == first
    changed = pixels.copy()
    changed[3] += 1  # of the test split: training does not depend on it
    assert [a == b for a, b in zip(keys("c", changed), first, strict=True)] == [True, True, False]


def test_choosing_never_sees_a_test_image():
    made = planner(tuning={"tries": 2}, methods=rows("vanilla", tokenstn={"tune": [{}, {"recipe": {"rate": 0.1}}]}))
    (tried,) = [one for one in tries_of(made.experiment, made) if one.plans is not None]
    assert tried.plans is not None and len(tried.plans) == 2
    table = open_place(tried.plans[0].cell.place)
    assert set(table.splits) == {"train", "val"} and len(table) == 52
    assert tried.plans[0].cell.config["split"] == "val"
    assert cell(made, "tokenstn").cell.config["split"] == "test"


def test_when_one_view_is_enough_is_found_on_images_that_nothing_is_trained_on_or_judged_by():
    made = planner(tuning={"tries": 2}, methods=rows("stn", tokenstn={"tune": [{}, {"recipe": {"rate": 0.1}}]}))
    assert cell(made, "tokenstn").cell.config["enough"] == {"split": "val", "orbit": "rotation"}
    (tried,) = [one for one in tries_of(made.experiment, made) if one.plans is not None]
    all_used = planner(data={"digits": {**TINY["data"]["digits"], "final": "train+val"}})
    for other in (
        tried.plans[0],
        cell(all_used, "tokenstn"),
        cell(made, "tokenstn", options={"auto": {"sure": 4.0}}),
        cell(made, "tokenstn", views=3),
        cell(made, "stn"),
    ):
        assert "enough" not in other.cell.config


def test_what_auto_means_is_part_of_what_is_judged_and_not_of_what_is_trained():
    usual, other = (cell(planner(), "tokenstn", options=options) for options in ({}, {"auto": {"most": 3}}))
    assert usual.cell.config["auto"] == asdict(AutoViews()) and other.cell.config["auto"] == asdict(AutoViews(most=3))
    assert usual.training.key == other.training.key and usual.cell.key != other.cell.key
    assert "auto" not in cell(planner(), "tokenstn", views=1).cell.config


def test_images_that_turn_out_to_belong_together_are_judged_again(tmp_path):
    """Intervals are clustered by groups; without any, what was kept stays as it is."""
    for number in range(12):
        picture(tmp_path / f"{number}.png", (8, 8), number)
    lines = [f"{number}.png,{'ab'[number % 2]},{('train', 'val', 'test')[number // 4]}" for number in range(12)]
    keys = []
    for groups in (None, "ppqq" * 3, "pqpq" * 3):
        ends = [""] * 12 if groups is None else [f",{group}{row // 4}" for row, group in enumerate(groups)]
        head = "path,label,split" + (",group" if groups else "")
        (tmp_path / "m.csv").write_text("\n".join([head, *(line + end for line, end in zip(lines, ends, strict=True))]))
        made = planner(
            data={"photos": {"source": str(tmp_path / "m.csv")}}, classifier={**TINY["classifier"], "size": 8}
        )
        found = cell(made, "vanilla")
        assert ("groups" in found.cell.config) == (groups is not None)
        keys.append((found.classifier.key, found.cell.key))
    assert len({key for key, _ in keys}) == 1 and len({key for _, key in keys}) == 3


def test_what_is_known_of_the_data_says_whether_they_are_upright(tmp_path):
    said = {**TINY["data"]["digits"]}
    for known, expected in (({}, True), ({"upright": False}, False)):
        assert cell(planner(data={"digits": {**said, **known}}), "tokenstn").cell.config["upright"] is expected
    unsorted = replace(open_images("digits"), upright=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokenstn.benchmark.tables.open_images", lambda *_, **__: unsorted)
        assert cell(planner(), "tokenstn").cell.config["upright"] is False


def test_the_budget_cuts_the_list_of_tries():
    tune = [{}, {"recipe": {"rate": 0.1}}, {"recipe": {"rate": 0.2}}]
    for tries, number in ((1, None), (2, 2), (9, 3)):
        made = planner(tuning={"tries": tries}, methods={"tokenstn": {"tune": tune}})
        (tried,) = tries_of(made.experiment, made)
        assert (None if tried.plans is None else len(tried.plans)) == number


def test_final_cells_may_train_on_the_validation_images_too():
    source = {"source": "digits", "limit": {"train": 30, "val": 10, "test": 10}, "final": "train+val"}
    made = planner(data={"digits": source})
    assert made.images("digits").counts == {"train": 40, "test": 10}


def test_an_experiment_that_chooses_judges_validation_images_and_reads_no_test_image():
    source = {"source": "digits", "limit": {"train": 30, "val": 10, "test": 10}}
    usual = planner(data={"digits": source}).images("digits")
    choosing = planner(data={"digits": {**source, "judged": "val"}})
    images = choosing.images("digits")
    assert images.counts == {"train": 30, "test": 10} and len(open_place(images.place)) == 40
    assert images.checksums["test"] == usual.checksums["val"] != usual.checksums["test"]
    with pytest.raises(ValueError, match="trains on what"):
        planner(data={"digits": {**source, "judged": "val", "final": "train+val"}})


def test_data_that_are_not_there_are_named_with_the_reason():
    made = planner(data={**TINY["data"], "photos": {"source": "no/such/folder"}})
    assert list(made.missing) == ["photos"] and "no/such/folder" in made.missing["photos"]
    weights = {"arch": "vit_tiny_patch16_224", "weights": "none.safetensors"}
    assert "none.safetensors" in planner(classifier=weights, methods=rows("vanilla")).missing["digits"]


def test_images_of_one_size_are_held_in_memory_and_others_are_left(tmp_path):
    for name in ("a", "b"):
        for number in range(2):
            picture(tmp_path / name / f"{number}.png", size=(9, 7))
    table = open_images(tmp_path)
    kept = held(table)
    assert isinstance(kept.items, torch.Tensor) and kept.items.shape[0] == 4
    assert all(torch.equal(kept.read(row), table.read(row)) for row in range(4))
    assert held(table, largest=10) is table
    picture(tmp_path / "a" / "9.png", size=(5, 5))
    mixed = open_images(tmp_path)
    assert held(mixed) is mixed


def test_a_file_is_found_in_the_folders_that_are_named(tmp_path):
    table = open_images("digits")
    x, y = table.items[:60, 0].numpy(), table.labels[:60].numpy()
    np.savez(tmp_path / "few.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    assert describe(DataSpec("few.npz"), "final", (str(tmp_path),)).place.source == str(tmp_path / "few.npz")
    with pytest.raises(ValueError, match=r"no data set 'few\.npz'"):
        describe(DataSpec("few.npz"), "final")
    assert Place("a", "final") == Place("a", "final")  # a key of the cache of open tables
