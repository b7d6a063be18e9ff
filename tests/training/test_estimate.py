"""The time that a run will take is told beforehand, and telling it changes nothing."""

import time
from dataclasses import replace

import torch
from PIL import Image

from tokenstn.training.engine import train_rectifier
from tokenstn.training.estimate import estimate_seconds
from tokenstn.training.rectifier_training import RectifierTraining

from .test_engine import ONE_PROCESS, PREPARED, SHORT, fresh, shapes, weights

CPU = torch.device("cpu")


def test_it_has_the_right_order_of_magnitude(tmp_path):
    settings = replace(SHORT, epochs=8)
    told = estimate_seconds(RectifierTraining(fresh(), settings, PREPARED, 0), shapes(), settings, CPU)
    start = time.perf_counter()
    train_rectifier(fresh(), shapes(), settings, tmp_path, machine=ONE_PROCESS)
    assert told / 10 < time.perf_counter() - start < 10 * told + 5  # Lightning itself needs a moment


def test_an_image_that_cannot_be_read_is_no_reason_not_to_tell(tmp_path):
    """Whether it may be left out is for the training to say."""
    table, paths = shapes(), []
    for row in range(len(table)):
        paths.append(tmp_path / f"{row:03}.png")
        Image.fromarray(table.items[row, 0].numpy()).save(paths[-1])
    paths[int(table.splits["val"][0])].write_bytes(b"not an image")
    module = RectifierTraining(fresh(), SHORT, PREPARED, 0)
    assert estimate_seconds(module, replace(table, items=paths), SHORT, CPU) > 0


def test_more_epochs_take_longer_and_neither_weights_nor_random_numbers_are_spent():
    model = fresh().train()
    before, state = weights(model), torch.get_rng_state()
    few, many = (
        estimate_seconds(RectifierTraining(model, settings, PREPARED, 0), shapes(), settings, CPU)
        for settings in (SHORT, replace(SHORT, epochs=100 * SHORT.epochs))
    )
    assert many > 10 * few > 0
    assert torch.equal(torch.get_rng_state(), state)
    for key, value in weights(model).items():
        assert torch.equal(value, before[key]), key
    assert all(parameter.grad is None for parameter in model.parameters())
