"""Weights that are not finite are neither kept nor taken, and images that show nothing are not trusted."""

import math

import pytest
import torch
from safetensors.torch import load_file, save_file

import tokenstn
from tokenstn.models.averaging import shows_nothing
from tokenstn.models.finite import broken_weights, is_answer, why_no_answer

from .classifiers import small_vit
from .flags import some_thresholds
from .model_folders import model_of


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_not_saved(tmp_path, value):
    model = model_of()
    model.save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    with torch.no_grad():
        model.classifier.head.bias[1] = value
    assert broken_weights(model) == ["backbone.classifier.head.bias"]
    with pytest.raises(ValueError, match=r"head\.bias hold values that are not finite; nothing was written"):
        model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before


def test_a_folder_with_such_weights_is_not_loaded(tmp_path):
    model_of().save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["backbone.classifier.head.weight"][0, 0] = math.nan
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"is of no use: .*head\.weight hold values that are not finite"):
        tokenstn.load(tmp_path)


def test_a_mask_in_a_buffer_may_be_infinite():
    classifier = small_vit()
    classifier.register_buffer("mask", torch.tensor([0.0, -math.inf]))
    assert broken_weights(classifier) == []
    classifier.mask[0] = math.nan
    assert broken_weights(classifier) == ["mask"]


def test_an_answer_is_made_of_numbers():
    answers = torch.tensor([[0.5, 0.5], [math.nan, math.nan], [1.0, 0.0]])
    assert is_answer(answers).tolist() == [True, False, True]
    assert "float32" in why_no_answer("bfloat16") and "weights" in why_no_answer("float32")


@torch.no_grad()
@pytest.mark.parametrize("primitives", [("rotation",), ()], ids=["rectified", "bare"])
def test_an_image_that_shows_nothing_raises_both_flags(primitives):
    views = "auto" if primitives else None
    never = some_thresholds(views, class_threshold=1e9, pose_threshold=1.0)
    if not primitives:
        never = type(never)(never.of_class, None, never.settings)
    model = model_of(small_vit(), primitives=primitives, thresholds=never)
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    images[1], images[3] = 2.5, torch.tensor([-1.0, 0.0, 1.0])[:, None, None]
    images[3] += 0.01 * torch.rand(32, 32)  # less than a grey level
    p = model(images)
    assert p.class_uncertain is not None and p.class_uncertain.tolist() == [False, True, False, True]
    if primitives:
        assert p.pose_ambiguous is not None and p.pose_ambiguous.tolist() == [False, True, False, True]
    assert torch.isfinite(p.probabilities).all()


def test_a_single_dot_is_something():
    image = torch.zeros(1, 3, 32, 32)
    image[0, 1, 5, 5] = 0.05
    assert shows_nothing(torch.cat((image, 0 * image))).tolist() == [False, True]
