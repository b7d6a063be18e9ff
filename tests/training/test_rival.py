"""Rivals are trained by the same engine: their own losses, the same images, order and resumption."""

from dataclasses import replace

import pytest
import torch

import tokenstn
from tokenstn.baselines import Rival
from tokenstn.training import keeping
from tokenstn.training.engine import train_rival
from tokenstn.training.rectifier_training import RectifierTraining
from tokenstn.training.rival import RivalTraining

from ..models.classifiers import PlainCNN
from .test_engine import ONE_PROCESS, PREPARED, SHORT, fresh, logged, shapes, weights


def rival(name: str, **options) -> Rival:
    torch.manual_seed(0)
    made = tokenstn.create(
        name, PlainCNN(channels=1, classes=2), input_size=(28, 28), preprocessing=PREPARED, **options
    )
    assert isinstance(made, Rival)
    return made


@pytest.mark.parametrize("name", ["head-stn", "pstn-gamma", "canprior-s", "diffeo-stn"])
def test_a_rival_learns_with_its_classifier_frozen(tmp_path, name):
    model = rival(name)
    before = weights(model)
    trained = train_rival(
        model, shapes(), replace(SHORT, epochs=2), tmp_path, augmentation=("rotation",), machine=ONE_PROCESS
    )
    moved = {key for key, value in weights(model).items() if not torch.equal(value, before[key])}
    assert moved and all(key.startswith("localizer.") for key in moved)
    assert trained.frozen is not None and trained.frozen.share == 1
    own = {"pstn-gamma": "train/kl", "canprior-s": "train/prior"}.get(name, "train/classification")
    assert {own, "val/posed", "val/upright"} <= trained.figures.keys()


def test_augmented_training_of_a_plain_classifier_pays_on_moved_images(tmp_path):
    model = rival("vanilla")
    joint = replace(SHORT, epochs=12, rate=1e-2, classifier="joint")
    train_rival(model, shapes(), joint, tmp_path, augmentation=("rotation",), machine=ONE_PROCESS)
    losses = logged(tmp_path, "train/loss")
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("kind", ["rival", "rectifier"])
def test_the_classification_of_an_epoch_is_a_mean_over_the_images_with_a_label(kind):
    settings = replace(SHORT, classification=1.0)
    training = (
        RivalTraining(rival("stn"), settings, PREPARED, 0, ())
        if kind == "rival"
        else RectifierTraining(fresh(), settings, PREPARED, 0)
    )
    noted: list[tuple[set[str], int]] = []
    training.note = lambda figures, images: noted.append((set(figures), images))
    batch = {"image": torch.zeros(4, 1, 28, 28, dtype=torch.uint8), "index": torch.arange(4)}
    training.training_step({**batch, "label": torch.tensor([1, -1, -1, 0])}, 0)
    assert [images for names, images in noted if "train/classification" in names] == [2]
    assert [images for names, images in noted if "train/alignment_rotation" in names] == [4] * (kind == "rectifier")


def test_a_classifier_comes_back_as_trainable_as_it_was_given(tmp_path):
    model = rival("stn")
    model.classifier.head.bias.requires_grad_(False)
    before = [parameter.requires_grad for parameter in model.classifier.parameters()]
    train_rival(model, shapes(), replace(SHORT, epochs=1), tmp_path, machine=ONE_PROCESS)
    assert [parameter.requires_grad for parameter in model.classifier.parameters()] == before


class PowerCutError(Exception):
    pass


def test_an_interrupted_rival_ends_with_the_same_weights(tmp_path, monkeypatch):
    def run(model: Rival, folder: str, resume: bool = False) -> dict[str, torch.Tensor]:
        settings = replace(SHORT, epochs=3)
        train_rival(
            model, shapes(), settings, tmp_path / folder, augmentation=("rotation",), machine=ONE_PROCESS, resume=resume
        )
        return weights(model)

    def stop(self) -> None:
        if self.current_epoch == 1:
            raise PowerCutError

    monkeypatch.setattr(keeping, "SECONDS", 0.0)
    whole = run(rival("pstn-gauss"), "whole")
    with monkeypatch.context() as patch:
        patch.setattr(RivalTraining, "on_train_epoch_start", stop, raising=False)
        with pytest.raises(PowerCutError):
            run(rival("pstn-gauss"), "cut")
    resumed = run(rival("pstn-gauss"), "cut", resume=True)
    for key, value in whole.items():
        assert torch.equal(value, resumed[key]), key


def test_a_rival_with_nothing_to_train_says_so(tmp_path):
    with pytest.raises(ValueError, match="has nothing to train while its classifier is frozen"):
        train_rival(rival("its"), shapes(), SHORT, tmp_path, machine=ONE_PROCESS)
