"""A loss or a gradient that is not finite: caught at its step, named, and never kept."""

import csv
from dataclasses import replace

import pytest
import torch

from tokenstn import TokenSTN
from tokenstn.training.checkpoints import WholeCheckpoints
from tokenstn.training.classifier_training import ClassifierTraining
from tokenstn.training.engine import train_classifier
from tokenstn.training.recipes import Recipe

from ..models.classifiers import PlainCNN
from .test_engine import ONE_PROCESS, PREPARED, shapes, weights

SHORT = Recipe(alignment=0.0, classification=1.0, epochs=3, batch_size=16, rate=3e-3)  # four steps in an epoch
SKIP = replace(ONE_PROCESS, on_nonfinite="skip")
NAN, INF = float("nan"), float("inf")


def normed() -> TokenSTN:
    """A classifier with BatchNorm, which remembers what it has seen."""
    torch.manual_seed(0)
    return TokenSTN(PlainCNN(channels=1, classes=2), primitives=(), input_size=(28, 28), preprocessing=PREPARED)


@pytest.fixture
def broken(monkeypatch):
    """Break the loss, the gradient or the activations in some steps (epoch, batch); the rows of these are kept."""
    rows: list[int] = []

    def make(kind: str, at: set[tuple[int, int]]) -> list[int]:
        whole = ClassifierTraining.training_step

        def step(self, batch, number):
            if (self.current_epoch, number) not in at:
                return whole(self, batch, number)
            rows.extend(batch["index"].tolist())
            if kind == "activations":
                bias = self.model.classifier.body[0].bias
                with torch.no_grad():
                    kept = bias.clone()
                    bias.fill_(INF)
                loss = whole(self, batch, number)
                with torch.no_grad():
                    bias.copy_(kept)
                return loss
            loss = whole(self, batch, number)
            if kind == "gradient":
                loss.register_hook(lambda gradient: gradient * INF)
            return loss * NAN if kind == "loss" else loss

        monkeypatch.setattr(ClassifierTraining, "training_step", step)
        return rows

    return make


@pytest.fixture
def broken_once(monkeypatch):
    """Break the loss or the gradient of some steps (epoch, batch) when they are computed for the first time."""

    def make(kind: str, at: set[tuple[int, int]]) -> None:
        whole, left = ClassifierTraining.training_step, set(at)

        def step(self, batch, number):
            loss = whole(self, batch, number)
            if (self.current_epoch, number) in left:
                left.remove((self.current_epoch, number))
                if kind == "gradient":
                    loss.register_hook(lambda gradient: gradient * INF)
                return loss * NAN if kind == "loss" else loss
            return loss

        monkeypatch.setattr(ClassifierTraining, "training_step", step)

    return make


def train(out, machine=ONE_PROCESS):
    model = normed()
    return model, train_classifier(model, shapes(), SHORT, out, machine=machine)


def listed(out) -> list[tuple[str, str, str, str]]:
    with (out / "not_finite.csv").open() as file:
        return [tuple(row) for row in list(csv.reader(file))[1:]]  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("device", ["at once", "later, as on a GPU"])
@pytest.mark.parametrize("batch", [2, 3], ids=["in an epoch", "at its end"])
@pytest.mark.parametrize(("kind", "what"), [("loss", "loss"), ("gradient", "gradient"), ("activations", "loss")])
def test_it_stops_at_the_step_and_names_the_images(tmp_path, broken, kind, what, batch, device, monkeypatch):
    monkeypatch.setattr("tokenstn.training.keeping.SECONDS", 0.0)
    if device != "at once":
        monkeypatch.setattr("tokenstn.training.finite.LOOKED_AT_LATER", ("cpu",))
    rows, table, step = broken(kind, {(1, batch)}), shapes(), 4 + batch
    with pytest.raises(ValueError, match=f"the {what} is not finite in step {step} .epoch 1.*leave such steps out"):
        train(tmp_path)
    assert listed(tmp_path) == [("1", str(step), what, table.item_name(row)) for row in rows]
    saved = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)
    assert saved["global_step"] == 4 and all(values.isfinite().all() for values in saved["state_dict"].values())


@pytest.mark.parametrize("kind", ["loss", "gradient", "activations"])
def test_a_step_that_is_left_out_changes_nothing(tmp_path, broken, kind):
    model, before = normed(), {}

    def remember(self) -> None:
        before.update(weights(self.model))

    def compare(self, *_) -> None:
        for key, value in weights(self.model).items():
            assert torch.equal(value, before[key]), key

    broken(kind, {(0, number) for number in range(4)})  # all of the first epoch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClassifierTraining, "on_fit_start", remember)
        patch.setattr(ClassifierTraining, "on_validation_epoch_start", compare, raising=False)
        trained = train_classifier(model, shapes(), replace(SHORT, epochs=1), tmp_path, machine=SKIP)
    assert trained.skipped_steps == 4 and len(listed(tmp_path)) == 64
    assert ("train/loss" in trained.figures) == (kind != "activations")  # a mean of nothing is not shown


def test_steps_that_are_left_out_are_counted_and_the_run_learns(tmp_path, broken):
    broken("loss", {(0, 1), (2, 3)})
    model, trained = train(tmp_path, SKIP)
    assert trained.skipped_steps == 2 and all(value == value for value in trained.figures.values())
    assert all(value.isfinite().all() for value in weights(model).values())


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("kind", ["loss", "gradient"])
def test_a_step_that_is_computed_again_is_as_if_it_had_been_right_at_once(tmp_path, broken_once, kind, accumulate):
    machine = replace(ONE_PROCESS, on_nonfinite="retry", accumulate=accumulate)
    wanted, _ = train(tmp_path / "whole", machine)
    broken_once(kind, {(0, 1), (2, 3)})
    model, trained = train(tmp_path / "broken", machine)
    assert trained.skipped_steps == 2 and len(listed(tmp_path / "broken")) == 2 * 16 * accumulate
    for key, value in weights(wanted).items():
        assert torch.equal(weights(model)[key], value), key


def test_a_step_that_is_wrong_again_stops_the_run(tmp_path, broken):
    broken("loss", {(1, 2)})
    with pytest.raises(ValueError, match=r"not finite in step 6 .*, nor is it when computed again in float32"):
        train(tmp_path, replace(ONE_PROCESS, on_nonfinite="retry"))


def test_ten_such_steps_in_a_row_are_too_many(tmp_path, broken):
    broken("loss", {(epoch, number) for epoch in range(3) for number in range(4)})
    with pytest.raises(ValueError, match=r"in step 9 .*for 10 steps in a row"):
        train(tmp_path, SKIP)


@pytest.mark.parametrize("where", ["weights", "moments"])
def test_a_checkpoint_with_numbers_that_are_none_is_not_written(tmp_path, where):
    good = {"state_dict": {"w": torch.ones(2)}, "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(2)}}}]}
    bad = {
        "state_dict": {"w": torch.tensor([1.0, NAN if where == "weights" else 1.0])},
        "optimizer_states": [{"state": {0: {"exp_avg": torch.tensor([INF if where == "moments" else 0.0])}}}],
    }
    path, files = tmp_path / "last.ckpt", WholeCheckpoints()
    files.save_checkpoint(good, path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"not finite any more .*no checkpoint is written"):
        files.save_checkpoint(bad, path)
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]
