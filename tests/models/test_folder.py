"""A model folder is enough to rebuild the model, as it was."""

import copy
import dataclasses
import json
import os

import numpy as np
import pytest
import timm
import torch
import torchvision
from torch import nn

import tokenstn
from tokenstn import TokenSTN
from tokenstn.geometry import OneSidedScale, Reflection, Rotation, Scale, Shear, Translation
from tokenstn.models import AutoViews

from .classifiers import ALL, PlainCNN, small_vit
from .flags import some_thresholds
from .model_folders import SETTINGS, assert_same_predictions, images, model_of


@pytest.mark.parametrize(
    "settings",
    [
        {"primitives": ()},
        {"primitives": ALL},
        {"primitives": [Rotation(0.5), Scale(0.6), Shear(0.2), Translation(0.3), Reflection()]},
        {"primitives": [OneSidedScale(0.7)]},
        {"primitives": [Rotation(np.deg2rad(30))]},
        {"posterior": "circular"},
        {"posterior": "gaussian"},
        {"posterior": "student", "primitives": ("rotation", "scale")},
        {"posterior": "point"},
        {"shared": 1},
        {"localization_size": 24},
        {"localization_size": 0.75},
        {"localization_tokens": 2},
        {"localization_size": (24, 16)},
        {"localization_size": 0.5, "closer_size": 1.0},
        {"localization_size": (16, 16), "closer_size": (32, 32)},
        {"multi_label": True},
        {"poses": "relative"},
        {"auto": AutoViews(mass=0.5, most=3)},
        {"auto": AutoViews(sure=None, spread_deg=25)},
        {"thresholds": some_thresholds()},
        {"thresholds": some_thresholds(views=3, class_threshold=None, pose_threshold=None)},
        {"thresholds": dataclasses.replace(some_thresholds(), of_class=None)},
        {"thresholds": dataclasses.replace(some_thresholds(views=None), of_pose=None), "primitives": ()},
        {"classes": ["weiß", "猫", "a b", "", "x"]},
        {"preprocessing": SETTINGS},
    ],
    ids=str,
)
def test_a_model_comes_back_as_it_was(settings, tmp_path):
    model = model_of(**settings)
    model.save_pretrained(tmp_path)
    loaded = tokenstn.load(tmp_path)
    assert_same_predictions(loaded, model, images())
    for kept in (
        "primitives",
        "posterior",
        "localization_size",
        "localization_tokens",
        "closer_size",
        "multi_label",
        "auto",
        "poses",
        "thresholds",
        "classes",
    ):
        assert getattr(loaded, kept) == getattr(model, kept)
    assert loaded.preprocessing == model.preprocessing
    assert loaded.backbone.input_size == model.backbone.input_size
    assert not loaded.training


CLASSIFIERS = {
    "timm ResNet": (lambda: timm.create_model("test_resnet", num_classes=3, in_chans=1), 2),
    "timm ResNet by the name of a layer": (lambda: timm.create_model("test_resnet", num_classes=3), "layer1"),
    "timm ViT": (lambda: small_vit(in_chans=1, num_classes=3), 2),
    "torchvision ResNet": (lambda: torchvision.models.resnet18(num_classes=3), "layer1"),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_of_the_two_libraries_need_no_arguments(name, tmp_path):
    make, shared = CLASSIFIERS[name]
    model = model_of(make(), shared=shared, input_size=(32, 32))
    model.save_pretrained(tmp_path)
    loaded = tokenstn.load(tmp_path)
    assert type(loaded.classifier) is type(model.classifier)
    assert_same_predictions(loaded, model, images(channels=model.backbone.channels))


def test_a_transferred_rectifier_comes_back_with_its_own_prefix(tmp_path):
    donor = model_of(
        small_vit(in_chans=3, depth=3), primitives=("rotation",), shared=1, localization_size=24, localization_tokens=2
    )
    model = model_of(
        timm.create_model("test_resnet", num_classes=4), rectifier=donor, input_size=(48, 48), preprocessing=SETTINGS
    )
    model.save_pretrained(tmp_path / "once")
    loaded = tokenstn.load(tmp_path / "once")
    assert_same_predictions(loaded, model, images(size=48))
    loaded.save_pretrained(tmp_path / "twice")
    assert_same_predictions(tokenstn.load(tmp_path / "twice"), model, images(size=48))


def test_a_folder_that_does_not_say_how_many_tokens_had_fourteen(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    assert config.pop("localization_tokens") == 14
    path.write_text(json.dumps(config))
    assert tokenstn.load(folder).localizer.grid == 14


def test_a_loaded_rectifier_serves_another_classifier(folder):
    loaded = tokenstn.load(folder)
    other = TokenSTN(PlainCNN(), rectifier=loaded, input_size=(32, 32), preprocessing=SETTINGS).eval()
    torch.testing.assert_close(other(images(), views=1).pose.matrix, loaded(images(), views=1).pose.matrix)


def test_a_rectifier_that_reads_through_a_class_of_ones_own_is_not_saved(tmp_path):
    donor = TokenSTN(PlainCNN(), shared="body", input_size=(32, 32))
    model = TokenSTN(small_vit(), rectifier=donor)
    with pytest.raises(ValueError, match="PlainCNN, which cannot be rebuilt"):
        model.save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_holds_three_files_that_others_may_read_and_no_pickle(folder, tmp_path):
    model_of().save_pretrained(tmp_path / "new")
    names = ["README.md", "config.json", "model.safetensors"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == names
    modes = {(tmp_path / "new" / name).stat().st_mode for name in names}
    assert len(modes) == 1


def test_saving_leaves_the_model_as_it_was(tmp_path):
    model = model_of().train()
    model.classifier.blocks[0].eval()
    model.classifier.head.requires_grad_(False)
    before = copy.deepcopy(model)
    state = torch.get_rng_state()
    model.save_pretrained(tmp_path)
    assert [module.training for module in model.modules()] == [module.training for module in before.modules()]
    assert [p.requires_grad for p in model.parameters()] == [p.requires_grad for p in before.parameters()]
    assert torch.equal(torch.get_rng_state(), state)
    torch.testing.assert_close(model.state_dict(), before.state_dict(), rtol=0, atol=0)


def test_saving_again_replaces_the_folder(folder):
    model = model_of(small_vit(num_classes=2), primitives=("rotation",))
    model.save_pretrained(folder)
    assert_same_predictions(tokenstn.load(folder), model, images())


@pytest.mark.parametrize("failing", [1, 2])
def test_an_interrupted_save_never_pairs_a_config_with_other_weights(folder, monkeypatch, failing):
    calls = []
    replace = os.replace

    def interrupted(source, target):
        calls.append(target)
        if len(calls) == failing:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model_of(primitives=ALL, classes=list("vwxyz")).save_pretrained(folder)
    with pytest.raises(FileNotFoundError, match=r"no config\.json"):
        tokenstn.load(folder)


def test_weights_that_share_memory_are_saved(tmp_path):
    classifier = small_vit()
    classifier.blocks[1].mlp.fc1.weight = classifier.blocks[0].mlp.fc1.weight
    model = model_of(classifier)
    model.save_pretrained(tmp_path)
    assert_same_predictions(tokenstn.load(tmp_path), model, images())


def altered() -> nn.Module:
    classifier = small_vit()
    classifier.blocks[0].mlp.act = nn.ReLU()
    return classifier


@pytest.mark.parametrize(("make", "shared"), [(PlainCNN, "body"), (altered, 2)])
def test_any_other_classifier_has_to_be_given_again(make, shared, tmp_path):
    model = model_of(make(), shared=shared, input_size=(32, 32))
    kind = type(model.classifier).__name__
    with pytest.warns(UserWarning, match=rf"{kind} cannot be rebuilt.*load\(folder, classifier=…\)") as caught:
        model.save_pretrained(tmp_path)
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match=rf"{kind}.*load\(folder, classifier=…\)"):
        tokenstn.load(tmp_path)
    assert_same_predictions(tokenstn.load(tmp_path, classifier=make()), model, images())


def test_a_classifier_that_does_not_fit_the_folder_is_refused(folder):
    with pytest.raises(ValueError, match=r"do not fit.*2 of another shape: \S*head.weight"):
        tokenstn.load(folder, classifier=small_vit(num_classes=7))


class Wobble(Rotation):
    """A primitive that no folder knows."""


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"primitives": [Wobble()]}, "Wobble"),
        ({"classes": [0, 1, 2, 3, 4]}, "classes"),
    ],
)
def test_what_would_not_come_back_is_not_written(settings, reason, tmp_path):
    with pytest.raises(ValueError, match=f"cannot be saved.*{reason}|{reason}.*cannot be saved"):
        model_of(**settings).save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()
