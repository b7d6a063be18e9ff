"""A run that is told to stop, or killed, goes on and ends as if nothing had happened."""

import os
import signal
from dataclasses import replace

import pytest
import torch
from torch import nn

from tokenstn import TokenSTN
from tokenstn.system.stopping import Stopped
from tokenstn.training import held, keeping
from tokenstn.training.engine import Machine, Trained, train_rectifier
from tokenstn.training.recipes import Recipe
from tokenstn.training.rectifier_training import RectifierTraining

from ..models.classifiers import PlainCNN
from .test_engine import ONE_PROCESS, PREPARED, fresh, shapes, weights

SHORT = Recipe(epochs=3, batch_size=16, rate=3e-3)  # four steps in an epoch
LABELLED = replace(SHORT, classification=1.0, classifier="joint", kl=0.1, views=2, sampling="random")


@pytest.fixture(scope="module", autouse=True)
def _small_runs():
    """Shapes are few and small, and a checkpoint is written after every epoch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeping, "SECONDS", 0.0)
        yield


def dropping() -> TokenSTN:
    """A model with dropout in its classifier, and BatchNorm, whose statistics go on, too."""
    torch.manual_seed(0)
    network = PlainCNN(channels=1, classes=2)
    network.body = nn.Sequential(network.body, nn.Dropout(0.2))
    return TokenSTN(
        network, ("rotation",), shared="body", input_size=(28, 28), localization_size=28, preprocessing=PREPARED
    )


def run(out, recipe: Recipe = SHORT, machine: Machine = ONE_PROCESS, model=fresh, resume=False, at=None):
    """Train; ``at``: (epoch, batch) in which SIGTERM comes."""
    made = model()

    def step(self, batch, number):
        if (self.current_epoch, number) == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return whole_step(self, batch, number)

    whole_step = RectifierTraining.training_step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RectifierTraining, "training_step", step)
        return made, train_rectifier(made, shapes(), recipe, out, machine=machine, resume=resume)


def assert_same(found: tuple[TokenSTN, Trained], wanted: tuple[TokenSTN, Trained]) -> None:
    for key, value in weights(wanted[0]).items():
        assert torch.equal(value, weights(found[0])[key]), key
    assert found[1] == wanted[1]


def log_of(out) -> str:
    return (out / "logs" / "csv" / "metrics.csv").read_text()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was not stopped, and its log."""
    out = tmp_path_factory.mktemp("whole")
    return run(out), log_of(out)


@pytest.mark.parametrize("at", [(0, 0), (1, 2), (1, 3), (2, 3)], ids=str)
def test_a_run_that_was_told_to_stop_goes_on_from_its_step(tmp_path, at, whole):
    with pytest.raises(Stopped, match=r"last\.ckpt has all that was done: go on with --resume=true") as stopped:
        run(tmp_path / "cut", at=at)
    assert stopped.value.code == 143
    saved = torch.load(tmp_path / "cut" / "checkpoints" / "last.ckpt", weights_only=True)
    assert saved["global_step"] == 4 * at[0] + at[1] + 1, "the step was finished, and no other begun"
    assert_same(run(tmp_path / "cut", resume=True), whole[0])
    assert log_of(tmp_path / "cut") == whole[1]


@pytest.mark.parametrize("how", ["patience", "two batches a step", "dropout and labels", "processes that read"])
def test_it_goes_on_whatever_there_is_to_remember(tmp_path, how, monkeypatch):
    monkeypatch.setattr(keeping, "SECONDS", 1e9)  # only the stop itself writes
    recipe, machine, model = SHORT, ONE_PROCESS, fresh
    if how == "patience":
        recipe = replace(SHORT, epochs=6, patience=1)
    elif how == "two batches a step":
        machine = replace(ONE_PROCESS, accumulate=2)
    elif how == "dropout and labels":
        recipe, model = LABELLED, dropping
    else:
        monkeypatch.setattr(held, "MOST_BYTES", 0)
        machine = replace(ONE_PROCESS, workers=1)
    whole = run(tmp_path / "whole", recipe, machine, model)
    with pytest.raises(Stopped):
        run(tmp_path / "cut", recipe, machine, model, at=(1, 1))
    assert_same(run(tmp_path / "cut", recipe, machine, model, resume=True), whole)
    again = run(tmp_path / "cut", recipe, machine, model, resume=True)
    assert_same(again, whole)  # a run that was over is over, with all its figures


def test_a_kill_between_checkpoint_and_log_leaves_no_hole_in_the_log(tmp_path, monkeypatch, whole):
    class KilledError(Exception):
        pass

    def killed(self, trainer, module) -> None:
        whole_end(self, trainer, module)
        if trainer.current_epoch == 1:
            raise KilledError

    whole_end = keeping.KeepLast.on_train_epoch_end
    with monkeypatch.context() as patch:
        patch.setattr(keeping.KeepLast, "on_train_epoch_end", killed)
        with pytest.raises(KilledError):
            run(tmp_path / "cut")
    run(tmp_path / "cut", resume=True)
    assert log_of(tmp_path / "cut") == whole[1]


def test_another_number_of_processes_cannot_go_on_in_mid_epoch(tmp_path):
    with pytest.raises(Stopped):
        run(tmp_path, at=(1, 1))
    path = tmp_path / "checkpoints" / "last.ckpt"
    saved = torch.load(path, weights_only=True)
    saved["so_far"]["place"]["processes"] = 2
    torch.save(saved, path)
    with pytest.raises(ValueError, match="with 2 processes, and there are 1 now"):
        run(tmp_path, resume=True)
