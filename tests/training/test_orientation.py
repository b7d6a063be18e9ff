"""Where orientation is the label, the test fires and names the classes; elsewhere it is silent."""

import math

import pytest
import torch
from torch import Tensor

from tokenstn.geometry import Rotation
from tokenstn.training import orientation_predicts_label

from .toys import arrows, shapes, trained_cnn

ARROWS = ("right", "down", "left", "up")  # quarter turns clockwise


@pytest.fixture(scope="module")
def arrow_model():
    model = trained_cnn(*arrows(1024, torch.Generator().manual_seed(0)))
    return lambda images: model(images).softmax(-1)


@pytest.fixture(scope="module")
def shape_model():
    model = trained_cnn(*shapes(1024, torch.Generator().manual_seed(0)))
    return lambda images: model(images).softmax(-1)


def test_the_toy_classifiers_are_good(arrow_model, shape_model):
    for model, toys in ((arrow_model, arrows), (shape_model, shapes)):
        images, labels = toys(200, torch.Generator().manual_seed(1))
        assert (model(images).argmax(1) == labels).float().mean() > 0.97


def test_turning_arrows_changes_their_label(arrow_model):
    images, labels = arrows(200, torch.Generator().manual_seed(1))
    conflicts = orientation_predicts_label(arrow_model, images, labels, ("rotation",), ARROWS)
    assert {c.classes for c in conflicts} == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}
    assert all(c.primitive == "rotation" and c.share > 0.8 for c in conflicts)
    sideways = next(c for c in conflicts if c.classes == (0, 2))
    assert sideways.movement == "a turn by 180°" and "switch rotation off" in sideways.sentence
    assert "right" in sideways.sentence and "left" in sideways.sentence


def test_mirroring_arrows_changes_their_label(arrow_model):
    images, labels = arrows(200, torch.Generator().manual_seed(1))
    conflicts = orientation_predicts_label(arrow_model, images, labels, ("reflection", "scale"), ARROWS)
    assert {(c.movement, c.classes) for c in conflicts} == {
        ("mirroring left-right", (0, 2)),
        ("mirroring up-down", (1, 3)),
    }
    assert all(c.primitive == "reflection" for c in conflicts)


def test_left_and_right_alone(arrow_model):
    images, labels = arrows(300, torch.Generator().manual_seed(2))
    level = labels % 2 == 0
    conflicts = orientation_predicts_label(arrow_model, images[level], labels[level])
    assert {(c.primitive, c.classes) for c in conflicts} == {("rotation", (0, 2)), ("reflection", (0, 2))}


def test_a_small_bound_does_no_harm(arrow_model):
    images, labels = arrows(200, torch.Generator().manual_seed(1))
    assert orientation_predicts_label(arrow_model, images, labels, (Rotation(math.radians(15)),)) == ()


def test_other_primitives_are_not_tried(arrow_model):
    images, labels = arrows(50, torch.Generator().manual_seed(1))
    assert orientation_predicts_label(arrow_model, images, labels, ("scale", "shear", "translation")) == ()


def test_shapes_that_only_confuse_the_classifier_are_left_alone(shape_model):
    images, labels = shapes(300, torch.Generator().manual_seed(1))
    assert orientation_predicts_label(shape_model, images, labels) == ()


def bright_half(images: Tensor) -> Tensor:
    """0 when the upper half is brighter, 1 when the lower is: orientation is the label."""
    lower = images[:, 0, 10:].mean((1, 2)) > images[:, 0, :10].mean((1, 2))
    return torch.nn.functional.one_hot(lower.long(), 2).float()


def halves(count: int) -> tuple[Tensor, Tensor]:
    labels = torch.arange(count) % 2
    images = torch.zeros(count, 1, 20, 20)
    images[labels == 0, :, :10] = 1
    images[labels == 1, :, 10:] = 1
    return images, labels


def test_confusions_must_be_mutual_confident_and_many():
    images, labels = halves(40)

    def one_way(x: Tensor) -> Tensor:  # all turned images are class 1
        same = (x - images).abs().amax((1, 2, 3)) < 1e-3
        answers = torch.where(same, labels, 1)
        return torch.nn.functional.one_hot(answers, 2).float()

    assert len(orientation_predicts_label(bright_half, images, labels, ("rotation",))) == 1
    assert orientation_predicts_label(one_way, images, labels, ("rotation",)) == ()
    assert orientation_predicts_label(lambda x: 0.2 + 0.6 * bright_half(x), images, labels, ("rotation",)) != ()
    assert orientation_predicts_label(lambda x: 0.4 + 0.2 * bright_half(x), images, labels, ("rotation",)) == ()
    assert orientation_predicts_label(bright_half, *halves(4), ("rotation",)) == ()


def test_guessing_between_two_classes_is_no_conflict():
    images, labels = halves(100)

    def lost(x: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        same = (x - images).abs().amax((1, 2, 3)) < 1e-3
        guess = torch.randint(2, (len(x),), generator=generator)
        return torch.nn.functional.one_hot(torch.where(same, labels, guess), 2).float()

    assert orientation_predicts_label(lost, images, labels) == ()


def test_batches_change_nothing(arrow_model):
    images, labels = arrows(100, torch.Generator().manual_seed(1))
    whole = orientation_predicts_label(arrow_model, images, labels)
    assert orientation_predicts_label(arrow_model, images, labels, batch_size=7) == whole


def test_images_need_not_be_square(arrow_model):
    images, labels = halves(40)
    wide = torch.nn.functional.pad(images, (6, 6))
    assert {c.movement for c in orientation_predicts_label(bright_half, wide, labels)} == {
        "a turn by 180°",
        "mirroring up-down",
    }
