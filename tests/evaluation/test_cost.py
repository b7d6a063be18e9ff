"""What a model costs, counted against numbers known beforehand."""

import pytest
import torch

from tokenstn import TokenSTN
from tokenstn.evaluation import cost as cost_module
from tokenstn.evaluation.cost import measure_cost

from ..models.classifiers import small_vit
from .toys import Clock, HonestSTN, Timed, bare_model


@pytest.fixture(scope="module")
def cost():
    torch.manual_seed(0)
    classifier = small_vit().requires_grad_(False)
    return measure_cost(TokenSTN(classifier, ("rotation",)), batch_size=4, seconds=2, auto_views=2.5)


def test_flops_grow_by_the_classifier_for_every_view(cost):
    flops = dict(cost.flops)
    assert list(flops) == [0, 1, 2, 4, 8]
    bare = flops[0]
    assert (
        flops[1] > bare
        and flops[2] - flops[1] == pytest.approx(bare)
        and flops[8] - flops[4] == pytest.approx(4 * bare)
    )


def test_attention_is_counted():
    """64 patches and a class token, 48 wide, 3 blocks: the two products of each attention and all linear layers."""
    torch.manual_seed(0)
    tokens, width = 65, 48
    attention = 2 * 2 * tokens * tokens * width
    linear = 2 * tokens * width * (3 * width + width + 8 * width)
    rest = 2 * 64 * (3 * 16) * width + 2 * width * 5
    counted = dict(measure_cost(TokenSTN(small_vit(), ()), batch_size=2, seconds=1).flops)[0]
    assert counted == 3 * (attention + linear) + rest


def test_parameters_are_those_of_the_parts(cost):
    model = TokenSTN(small_vit().requires_grad_(False), ("rotation",))
    localizer = sum(p.numel() for p in model.localizer.parameters())
    assert cost.localizer_parameters == cost.trainable_parameters == localizer
    assert cost.parameters == localizer + sum(p.numel() for p in model.classifier.parameters())


def test_every_number_of_views_is_timed_and_the_device_named(cost):
    speed = dict(cost.throughput)
    assert list(speed) == [0, 1, 2, 4, 8] and min(speed.values()) > 0
    assert cost.device.startswith("cpu") and cost.peak_memory_mb is None and cost.auto_views == 2.5
    assert 1 <= cost.batch_size <= 4


def test_a_bare_classifier_is_counted_alone():
    cost = measure_cost(bare_model(), batch_size=2, seconds=1)
    assert [views for views, _ in cost.flops] == [0] and cost.localizer_parameters == 0


def test_without_measuring_there_are_the_parameters():
    cost = measure_cost(HonestSTN(), measured=False)
    assert cost.flops == cost.throughput == () and cost.parameters > 0


def test_images_per_second_are_those_of_the_clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(cost_module, "time", clock)
    cost = measure_cost(TokenSTN(Timed(clock), (), input_size=(8, 8)), batch_size=4, seconds=60)
    assert cost.batch_size == 4 and dict(cost.throughput)[0] == pytest.approx(50)


def test_a_slow_model_gets_fewer_images(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(cost_module, "time", clock)
    cost = measure_cost(TokenSTN(Timed(clock), (), input_size=(8, 8)), batch_size=64, seconds=0.5)
    assert cost.batch_size == 4  # five rounds and a warm-up, 0.02 s an image
    assert clock.now < 1.0
