"""Methods that look at fixed or random poses: local averaging and test-time augmentation; and their common loss."""

import math

import pytest
import torch

from tokenstn.baselines.likelihood import mixture_loss
from tokenstn.geometry import decompose, rotation_group, wrap_angle
from tokenstn.training.losses import classification_loss

from .makers import make_rival, noise_images


@torch.no_grad()
def test_local_averaging_looks_ten_degrees_each_way():
    model, images = make_rival("vanilla", local_averaging=True), noise_images()
    angles = decompose(model(images).views.matrices).rotation.rad2deg()
    torch.testing.assert_close(angles, torch.tensor([-10, -10 / 3, 10 / 3, 10]).expand(4, 4))
    torch.testing.assert_close(model(images, views=1).probabilities, model.classify(images, {}).probabilities)


@torch.no_grad()
def test_vanilla_is_the_classifier_however_many_views_are_asked_for():
    model, images = make_rival("vanilla"), noise_images()
    assert model.bare and model.primitives == () and model.localizer is None
    torch.testing.assert_close(model(images, views=8).probabilities, model.classifier(images).softmax(-1))


@torch.no_grad()
def test_augmentation_draws_elements_of_the_group():
    model, images = make_rival("tta", elements=rotation_group(4), usual_views=40), noise_images()
    matrices = model(images).views.matrices
    quarters = decompose(matrices).rotation / (math.pi / 2)
    assert (wrap_angle(quarters - quarters.round()).abs() < 1e-4).all()
    assert {round(q) % 4 for q in quarters.flatten().tolist()} == {0, 1, 2, 3}
    assert not matrices[0].equal(matrices[1])  # each image has its own


@torch.no_grad()
def test_an_element_moves_the_object_and_not_the_frame():
    model, images = make_rival("tta"), noise_images()
    scales = decompose(model(images, views=50).views.matrices).scale
    assert scales.min() >= 0.999 and 1.25 < scales.max() <= 1.3334  # the object looks smaller: the window is larger


@pytest.mark.parametrize("views", [1, 5])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_the_averaged_probabilities(views, smoothing):
    logits, labels = 3 * torch.randn(6, views, 4), torch.arange(6) % 4
    expected = classification_loss(logits.softmax(-1).mean(1), labels, label_smoothing=smoothing)
    torch.testing.assert_close(mixture_loss(logits, labels, label_smoothing=smoothing), expected)
    several = torch.rand(6, 4).round()
    expected = classification_loss(logits.sigmoid().mean(1), several, True, smoothing)
    torch.testing.assert_close(mixture_loss(logits, several, True, smoothing), expected)


def test_the_loss_keeps_its_gradient_where_a_probability_underflows():
    logits = torch.tensor([[[0.0, 500.0]]], requires_grad=True)
    mixture_loss(logits, torch.tensor([0])).backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[[-1.0, 1.0]]]))
    with pytest.raises(ValueError, match="label_smoothing"):
        mixture_loss(logits, torch.tensor([0]), label_smoothing=1.0)
