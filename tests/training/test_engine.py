"""Runs: they learn, they can be interrupted, and they do not depend on how many processes share them."""

import csv
import math
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from lightning.pytorch import loggers
from PIL import Image

from tokenstn import Preprocessing, TokenSTN
from tokenstn.baselines.tokenstn_pixels import TokenSTNPixels
from tokenstn.data import ImageTable, UnreadableImageError
from tokenstn.geometry import OneSidedScale, Pose, Rotation, warp
from tokenstn.models.backbone import Backbone
from tokenstn.training import classifier_training, keeping
from tokenstn.training.engine import Machine, train_classifier, train_rectifier
from tokenstn.training.module import seed_noise
from tokenstn.training.order import EpochOrder
from tokenstn.training.poses import draw_poses
from tokenstn.training.recipes import RECIPES, Recipe, recipe
from tokenstn.training.rectifier_training import RectifierTraining

from ..models.classifiers import PlainCNN
from ..models.test_learning import comets, discs

ONE_PROCESS = Machine(accelerator="cpu", devices=1, progress=False)
SHORT = Recipe(epochs=4, batch_size=16, rate=3e-3)
PREPARED = Preprocessing(size=(28, 28), mean=(0.2,), std=(0.3,))


def shapes(count: int = 96) -> ImageTable:
    """Comets and discs in memory, a third of them for validation."""
    generator = torch.Generator().manual_seed(0)
    images = torch.cat((comets(count // 2, generator), discs(count // 2, generator)))
    rows = torch.randperm(count, generator=generator)
    return ImageTable(
        name="shapes",
        items=(images.clamp(0, 1) * 255).to(torch.uint8),
        labels=(torch.arange(count) >= count // 2).long(),
        classes=("comet", "disc"),
        splits={"train": rows[count // 3 :], "val": rows[: count // 3]},
        channels=1,
    )


def fresh(primitives=("rotation",)) -> TokenSTN:
    torch.manual_seed(0)
    return TokenSTN(
        PlainCNN(channels=1, classes=2).eval(),
        primitives,
        shared="body",
        input_size=(28, 28),
        localization_size=28,
        preprocessing=PREPARED,
    )


def weights(model: TokenSTN) -> dict[str, torch.Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


def logged(out: Path, name: str) -> list[float]:
    """The figures of every epoch in the run's CSV log."""
    with (out / "logs" / "csv" / "metrics.csv").open() as file:
        return [float(row[name]) for row in csv.DictReader(file) if row[name]]


def test_a_classifier_learns_the_images_as_they_are(tmp_path):
    model = TokenSTN(PlainCNN(channels=1, classes=2), primitives=(), input_size=(28, 28), preprocessing=PREPARED)
    trained = train_classifier(model, shapes(), replace(SHORT, epochs=20, rate=1e-2), tmp_path, machine=ONE_PROCESS)
    assert trained.figures["val/upright"] > 0.8  # a coin would get half
    assert not torch.are_deterministic_algorithms_enabled(), "what a run asks torch for does not outlast it"


def test_the_noise_of_a_step_is_seeded_without_leaving_a_trace():
    waiting = [len(kind._queued_calls) for kind in (torch.cuda, torch.xpu)]  # what torch keeps for devices not in use
    for _ in range(2):
        seed_noise(7, torch.device("cpu"))
        drawn = torch.rand(3)
    torch.manual_seed(7)
    assert torch.equal(drawn, torch.rand(3))
    seed_noise(8, torch.device("cpu"))
    assert [len(kind._queued_calls) for kind in (torch.cuda, torch.xpu)] <= [count + 1 for count in waiting]


def test_without_a_validation_split_a_run_ends_with_its_last_epoch(tmp_path):
    table, short = shapes(48), replace(SHORT, epochs=1)
    alone = replace(table, splits={"train": table.split("train")})
    trained = train_rectifier(fresh(), alone, short, tmp_path / "a", machine=ONE_PROCESS)
    assert trained.epochs == 1 and not any(name.startswith("val/") for name in trained.figures)
    with pytest.raises(ValueError, match="no val split to judge epochs by"):
        train_rectifier(fresh(), alone, replace(short, patience=1), tmp_path / "b", machine=ONE_PROCESS)


def test_a_classifier_is_shown_the_poses_of_its_augmentation(tmp_path, monkeypatch):
    drawn = []

    def watched(moves, *rest):
        drawn.append(moves)
        return draw_poses(moves, *rest)

    monkeypatch.setattr(classifier_training, "draw_poses", watched)
    model = TokenSTN(PlainCNN(channels=1, classes=2), primitives=(), input_size=(28, 28), preprocessing=PREPARED)
    how = {"machine": ONE_PROCESS, "augmentation": ("rotation", OneSidedScale())}
    train_classifier(model, shapes(48), replace(SHORT, epochs=1), tmp_path, **how)
    assert set(drawn) == {(Rotation(), OneSidedScale())}


def test_a_rectifier_learns_on_a_frozen_classifier_without_labels(tmp_path):
    model, table = fresh(), shapes()
    before = weights(model)
    table = replace(table, labels=torch.full_like(table.labels, -1))
    long = replace(SHORT, epochs=40)
    trained = train_rectifier(model, table, long, tmp_path, labelled=False, machine=ONE_PROCESS)
    assert trained.frozen is not None and trained.frozen.frozen_parameters == trained.frozen.parameters
    for key, value in weights(model).items():
        assert torch.equal(value, before[key]) == key.startswith("backbone."), key
    assert trained.figures["val/loss"] < math.log(2 * math.pi) - 0.2, "better than a belief that knows nothing"
    assert "val/posed" not in trained.figures
    losses = logged(tmp_path, "train/loss")
    assert len(losses) == long.epochs and losses[-1] < losses[0]
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {"last.ckpt"}


def test_a_rectifier_that_reads_pixels_is_trained_and_validated_like_one_that_reads_tokens(tmp_path):
    model = TokenSTNPixels(PlainCNN(channels=1, classes=2), ("rotation",), input_size=(28, 28), preprocessing=PREPARED)
    trained = train_rectifier(model, shapes(), replace(SHORT, epochs=2), tmp_path, machine=ONE_PROCESS)
    assert {"val/loss", "val/upright", "val/posed", "train/loss"} <= trained.figures.keys()


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("paper")])
def test_the_papers_recipes_train_with_labels_and_without_alignment(tmp_path, name):
    settings = replace(recipe(name), epochs=1, batch_size=32)
    model = TokenSTN(
        PlainCNN(channels=1, classes=2), settings.primitives, settings.posterior, shared="body", input_size=(28, 28),
        localization_size=28, preprocessing=PREPARED,
    )  # fmt: skip
    before = weights(model)
    trained = train_rectifier(model, shapes(), settings, tmp_path, machine=ONE_PROCESS)
    assert {"train/classification", "train/kl"} <= trained.figures.keys()
    assert "train/alignment_rotation" not in trained.figures
    moved = {key for key, value in weights(model).items() if not torch.equal(value, before[key])}
    assert any(key.startswith("localizer.") for key in moved)
    assert ("backbone.classifier.head.weight" in moved) == (settings.classifier == "joint")
    assert trained.frozen is not None and trained.epochs == 1
    assert (trained.frozen.share == 1.0) == (settings.classifier == "frozen")


@pytest.mark.parametrize("name", ["default", "joint"])
def test_a_classifier_comes_back_as_trainable_as_it_was_given(tmp_path, monkeypatch, name):
    model = fresh()
    model.classifier.head.bias.requires_grad_(False)
    before = [parameter.requires_grad for parameter in model.classifier.parameters()]
    settings = replace(recipe(name), epochs=1, batch_size=32)
    train_rectifier(model, shapes(), settings, tmp_path / "run", machine=ONE_PROCESS)
    assert [parameter.requires_grad for parameter in model.classifier.parameters()] == before

    def stop(self) -> None:
        raise PowerCutError

    monkeypatch.setattr(RectifierTraining, "on_train_epoch_start", stop)
    with pytest.raises(PowerCutError):
        train_rectifier(model, shapes(), settings, tmp_path / "cut", machine=ONE_PROCESS)
    assert [parameter.requires_grad for parameter in model.classifier.parameters()] == before


def test_layers_that_the_localizer_reads_do_not_move_with_the_second_half(tmp_path):
    model = fresh()  # reads the body, which is most of the classifier
    before = {name: value.clone() for name, value in model.classifier.state_dict().items()}
    settings = replace(recipe("joint"), epochs=1, batch_size=32, rate=1e-2)
    train_rectifier(model, shapes(), settings, tmp_path, machine=ONE_PROCESS)
    after = model.classifier.state_dict()
    moved = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert moved == {name for name in before if name.startswith("head.")}


def test_a_classifier_that_is_trained_along_has_a_rate_of_its_own(tmp_path):
    model = fresh()
    before = weights(model)
    settings = replace(recipe("joint"), epochs=1, batch_size=32, along_rate=1e-9)
    train_rectifier(model, shapes(), settings, tmp_path, machine=ONE_PROCESS)
    apart = {name: (value - before[name]).abs().max().item() for name, value in weights(model).items()}
    assert 0 < apart["backbone.classifier.head.weight"] < 1e-7
    assert max(far for name, far in apart.items() if name.startswith("localizer.")) > 1e-4


def test_epochs_are_judged_by_the_loss_that_is_trained(tmp_path):
    # the default's loss is that of the poses alone
    pose = train_rectifier(fresh(), shapes(), replace(SHORT, epochs=1), tmp_path / "a", machine=ONE_PROCESS).figures
    assert "val/pose" not in pose
    labels = replace(SHORT, epochs=1, rate=1e-9, classification=1.0, label_smoothing=0.0)  # a rate that moves nothing
    terms = {}
    for name, settings in {
        "labels": replace(labels, alignment=0.0),
        "poses": replace(labels, classification=0.0),
        "both": replace(labels, alignment=2.0, classification=3.0),
        "kl": replace(labels, kl=0.5),
    }.items():
        terms[name] = train_rectifier(fresh(), shapes(), settings, tmp_path / name, machine=ONE_PROCESS).figures
    assert terms["labels"]["val/pose"] == pytest.approx(terms["poses"]["val/loss"])
    assert terms["labels"]["val/loss"] == pytest.approx(math.log(2), abs=0.1), "two classes, and nothing is known"
    expected = 2 * terms["poses"]["val/loss"] + 3 * terms["labels"]["val/loss"]
    assert terms["both"]["val/loss"] == pytest.approx(expected)
    assert terms["kl"]["val/loss"] > terms["poses"]["val/loss"] + terms["labels"]["val/loss"]


def test_a_batch_without_labels_teaches_nothing_where_labels_are_all_there_is(tmp_path):
    by_labels = replace(SHORT, alignment=0.0, classification=1.0)
    training = RectifierTraining(fresh(), by_labels, PREPARED, 0)
    batch = {"image": torch.zeros(2, 1, 28, 28, dtype=torch.uint8), "index": torch.arange(2)}
    assert training.training_step({**batch, "label": torch.tensor([-1, -1])}, 0) is None
    assert training.training_step({**batch, "label": torch.tensor([-1, 1])}, 0) is not None


def only_comets(count: int = 160) -> ImageTable:
    """Comets, each lying at an angle of its own: no orientation stands out."""
    generator = torch.Generator().manual_seed(1)
    images = comets(count, generator)
    angles = 2 * math.pi * torch.rand(count, generator=generator)
    turned = warp(images, Pose.of(rotation=angles).matrix, inverse=True)
    rows = torch.arange(count)
    return ImageTable(
        name="comets",
        items=(turned.clamp(0, 1) * 255).to(torch.uint8),
        labels=torch.full((count,), -1),
        splits={"train": rows[40:], "val": rows[:40]},
        channels=1,
    )


def test_poses_of_data_that_are_not_upright_become_consistent(tmp_path):
    settings = replace(SHORT, epochs=25, batch_size=16)
    trained = train_rectifier(
        fresh(), only_comets(), settings, tmp_path, upright=False, labelled=False, machine=ONE_PROCESS
    )
    health = trained.collapse["rotation"]
    assert health.equivariance_error is not None and health.equivariance_failures is not None
    assert math.degrees(health.equivariance_error) < 15, "a constant answer would be 90° off"
    assert health.equivariance_failures < 0.25 and not health.collapsed
    followed = logged(tmp_path, "collapse/rotation_equivariance_error")
    assert len(followed) == settings.epochs and followed[-1] < followed[0] / 3


def test_early_stopping_ends_a_run_that_gets_no_better_and_keeps_its_best_epoch(tmp_path, monkeypatch):
    losses = [3.0, 1.0, 2.0, 2.5, 0.5]  # the fifth epoch is never reached
    seen: list[dict[str, torch.Tensor]] = []

    def validation_step(self, batch, number) -> None:
        if number == 0:
            seen.append(weights(self.model))
        self.log("val/loss", losses[self.current_epoch], batch_size=1)

    monkeypatch.setattr(RectifierTraining, "validation_step", validation_step)
    model = fresh()
    patient = replace(SHORT, epochs=5, patience=2)
    trained = train_rectifier(model, shapes(), patient, tmp_path, machine=ONE_PROCESS)
    assert trained.epochs == 4 and trained.figures["val/loss"] == 1.0
    for key, value in weights(model).items():
        assert torch.equal(value, seen[1][key]), key


def test_the_figures_and_the_collapse_of_a_patient_run_are_those_of_the_epoch_that_it_keeps(tmp_path):
    recipe = replace(SHORT, epochs=6, rate=0.05, patience=2)  # a rate that does harm
    model = fresh()
    trained = train_rectifier(model, shapes(), recipe, tmp_path, machine=ONE_PROCESS)
    kept = torch.load(tmp_path / "checkpoints" / "best.ckpt", weights_only=True)
    followed = logged(tmp_path, "val/loss")
    assert trained.figures["val/loss"] == pytest.approx(min(followed)) and followed[-1] > min(followed)
    assert {name: asdict(health) for name, health in trained.collapse.items()} == kept["callbacks"]["CollapseMonitor"]


def test_a_compiled_run_learns_the_same_and_leaves_the_networks_as_they_were(tmp_path):
    plain, compiled = fresh(), fresh()
    settings = replace(SHORT, epochs=1)
    train_rectifier(plain, shapes(), settings, tmp_path / "plain", machine=ONE_PROCESS)
    train_rectifier(compiled, shapes(), settings, tmp_path / "compiled", machine=replace(ONE_PROCESS, compile=True))
    for key, value in weights(plain).items():
        torch.testing.assert_close(weights(compiled)[key], value, atol=1e-3, rtol=1e-2, msg=key)
    assert compiled.localizer is not None and compiled.localizer._compiled_call_impl is None


def test_gradients_are_accumulated_over_batches(tmp_path):
    whole, parts = fresh(), fresh()
    one_step = replace(SHORT, epochs=1, batch_size=64)
    train_rectifier(whole, shapes(), one_step, tmp_path / "whole", machine=ONE_PROCESS)
    four_parts = replace(ONE_PROCESS, accumulate=4)
    train_rectifier(parts, shapes(), replace(one_step, batch_size=16), tmp_path / "parts", machine=four_parts)
    for key, value in weights(whole).items():
        torch.testing.assert_close(weights(parts)[key], value, atol=1e-4, rtol=1e-3, msg=key)


def test_a_logger_of_lightning_is_used_by_its_name(tmp_path, monkeypatch):
    written: dict[str, float] = {}

    class NoteLogger(loggers.CSVLogger):
        def __init__(self, save_dir: str) -> None:
            super().__init__(save_dir, name="notes", version="0")

        def log_metrics(self, metrics, step=None) -> None:
            written.update(metrics)

    monkeypatch.setattr(loggers, "NoteLogger", NoteLogger, raising=False)
    monkeypatch.setattr(loggers, "__all__", [*loggers.__all__, "NoteLogger"])
    machine = replace(ONE_PROCESS, logger="NoteLogger")
    train_rectifier(fresh(), shapes(), replace(SHORT, epochs=1), tmp_path, machine=machine)
    assert "train/loss" in written and "collapse/rotation_spread" in written
    with pytest.raises(ValueError, match="unknown logger 'Notes'; Lightning has"):
        Machine(logger="Notes")


def test_files_that_cannot_be_read_are_fatal_or_left_out_and_counted(tmp_path):
    table, folder = shapes(), tmp_path / "files"
    folder.mkdir()
    paths = []
    for row in range(len(table)):
        paths.append(folder / f"{row:03}.png")
        Image.fromarray(table.items[row, 0].numpy()).save(paths[-1])
    broken = paths[int(table.splits["train"][0])]
    broken.write_bytes(broken.read_bytes()[:40])
    files = replace(table, items=paths)
    short = replace(SHORT, epochs=1)
    with pytest.raises(UnreadableImageError, match=broken.name):
        train_rectifier(fresh(), files, short, tmp_path / "fatal", machine=ONE_PROCESS)
    lenient = replace(ONE_PROCESS, on_bad="skip")
    trained = train_rectifier(fresh(), files, replace(short, batch_size=1), tmp_path / "skip", machine=lenient)
    assert [Path(name).name for name in trained.unreadable] == [broken.name]


class PowerCutError(Exception):
    pass


@pytest.mark.parametrize("name", ["default", "with labels and random views"])
def test_an_interrupted_run_goes_on_and_ends_with_the_same_weights(tmp_path, monkeypatch, name):
    settings = SHORT if name == "default" else replace(SHORT, classification=1.0, views=2, sampling="random", kl=0.1)
    whole = fresh()
    train_rectifier(whole, shapes(), settings, tmp_path / "whole", machine=ONE_PROCESS)

    def stop(self) -> None:
        if self.current_epoch == 2:
            raise PowerCutError

    monkeypatch.setattr(keeping, "SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(RectifierTraining, "on_train_epoch_start", stop)
        with pytest.raises(PowerCutError):
            train_rectifier(fresh(), shapes(), settings, tmp_path / "cut", machine=ONE_PROCESS)
    resumed = fresh()
    train_rectifier(resumed, shapes(), settings, tmp_path / "cut", machine=ONE_PROCESS, resume=True)
    for key, value in weights(whole).items():
        assert torch.equal(value, weights(resumed)[key]), key


def test_there_must_be_something_to_resume(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no checkpoint to go on from"):
        train_rectifier(fresh(), shapes(), SHORT, tmp_path, machine=ONE_PROCESS, resume=True)


def test_a_model_that_does_not_say_how_images_are_prepared_is_refused(tmp_path):
    model = fresh()
    model.backbone.preprocessing = None
    assert isinstance(model.backbone, Backbone)
    with pytest.raises(ValueError, match="how its images are prepared"):
        train_rectifier(model, shapes(), SHORT, tmp_path, machine=ONE_PROCESS)


@pytest.mark.parametrize("name", ["paper-rotmnist", "joint"])
def test_labels_are_needed_where_they_are_all_there_is_and_where_a_classifier_learns(tmp_path, name):
    with pytest.raises(ValueError, match="learns from labels, and the images have none"):
        train_rectifier(fresh(), shapes(), recipe(name), tmp_path, labelled=False, machine=ONE_PROCESS)


TWO_PROCESSES = """
import sys, torch
sys.path.insert(0, {root!r})
from dataclasses import replace
from pathlib import Path
from tests.training.test_engine import KINDS, Machine, fresh, shapes, train_rectifier, weights

if __name__ == "__main__":
    torch.set_num_threads(1)
    devices, out = int(sys.argv[1]), Path(sys.argv[2])
    machine = Machine("cpu", devices, strategy="ddp" if devices > 1 else "auto", progress=False)
    found = {{}}
    for kind, settings in KINDS.items():
        model, settings = fresh(), replace(settings, epochs=2, batch_size=32 // devices)
        train_rectifier(model, shapes(), settings, out / kind, machine=machine)
        found[kind] = weights(model)
    torch.save(found, out / f"weights-{{devices}}.pt")
"""
KINDS = {
    "default": SHORT,
    "random views": replace(SHORT, classification=1.0, views=2, sampling="random"),
}


@pytest.mark.slow
def test_two_processes_equal_one_of_twice_the_batch(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(TWO_PROCESSES.format(root=str(Path(__file__).parents[2])))
    found = {}
    for devices in (1, 2):
        done = subprocess.run(
            [sys.executable, script, str(devices), tmp_path], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-2000:]
        found[devices] = torch.load(tmp_path / f"weights-{devices}.pt", weights_only=True)
    for kind in KINDS:
        for key, value in found[1][kind].items():
            torch.testing.assert_close(found[2][kind][key], value, atol=1e-4, rtol=1e-3, msg=f"{kind}: {key}")


def test_the_order_is_new_in_every_epoch_and_the_same_after_a_restart():
    order, again = EpochOrder(50, seed=1), EpochOrder(50, seed=1)
    first = list(order)
    order.set_epoch(1)
    again.set_epoch(1)
    assert sorted(first) == list(range(50)) and list(order) != first and list(order) == list(again)
    assert list(EpochOrder(50, seed=2)) != first


def test_an_unknown_recipe_is_refused():
    with pytest.raises(ValueError, match="unknown recipe 'ours'; there are default, joint, paper"):
        recipe("ours")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"epochs": 0}, "epochs=0"), ({"rate": 0.0}, "rate=0.0"), ({"alignment": 0.0}, "teaches nothing")],
)
def test_a_recipe_that_cannot_work_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        replace(recipe("default"), **settings)
