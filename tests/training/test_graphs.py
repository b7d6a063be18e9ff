"""Networks that are played back train as networks that are not, and are their own again afterwards."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import pytest
import timm
import torch

from tokenstn import Preprocessing, TokenSTN
from tokenstn.baselines import create
from tokenstn.data import ImageTable
from tokenstn.training import engine
from tokenstn.training.graphs import PlayBack, PlayedBack, _Network
from tokenstn.training.recipes import RECIPES, Recipe

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
PREPARED = Preprocessing((32, 32), (0.5,) * 3, (0.5,) * 3)
RECIPE = replace(RECIPES["default"], epochs=3, batch_size=16)


def table() -> ImageTable:
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (72, 3, 32, 32), dtype=torch.uint8)
    splits = {"train": torch.arange(56), "val": torch.arange(56, 72)}  # three batches of 16, and one of 8 left out
    return ImageTable("noise", pixels, torch.arange(72) % 4, ("a", "b", "c", "d"), splits)


def classifier() -> torch.nn.Module:
    torch.manual_seed(0)
    return timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=3, num_classes=4)


def trained(kind: str, out, monkeypatch, played: bool) -> dict[str, torch.Tensor]:
    """The weights of a model that was trained on the GPU, with its networks played back or not; as it starts without
    ``out``."""
    torch.manual_seed(1)
    if not played:
        monkeypatch.setattr(engine, "PlayBack", lambda model: engine.Callback())
    machine = engine.Machine("gpu", devices=1, progress=False)
    if kind == "classifier":
        model = TokenSTN(classifier(), primitives=(), preprocessing=PREPARED)
        train = partial(engine.train_classifier, model, table(), RECIPE)
    elif kind == "rival":
        model = create("stn", classifier(), preprocessing=PREPARED)
        train = partial(engine.train_rival, model, table(), replace(RECIPE, classifier="joint"))
    else:
        recipe: Recipe = replace(RECIPE, classification=1.0, classifier="joint") if kind == "joint" else RECIPE
        closer = 1.0 if kind in ("closer", "closer relative") else None
        model = TokenSTN(classifier(), ("rotation", "scale"), closer_size=closer)
        train = partial(engine.train_rectifier, model, table(), recipe, upright="relative" not in kind)
    if out is not None:
        train(out, machine=machine)
    assert "heads" not in vars(model) and "logits" not in vars(model.backbone)
    return {name: value.detach().float().cpu() for name, value in model.named_parameters()}


def test_the_function_sees_the_weights_that_it_is_given():
    model, images = TokenSTN(classifier(), ("rotation",)), torch.rand(2, 3, 32, 32)
    network = _Network(model.heads, model.localizer)
    own = model.localizer.heads["rotation"][-1].bias
    bias = torch.linspace(0, 1, len(own))
    moved = torch.func.functional_call(network, {"owner.heads.rotation.2.bias": bias}, (images,))["rotation"]
    torch.testing.assert_close(moved - bias, model.heads(images)["rotation"] - own, atol=1e-5, rtol=0)


@needs_cuda
@pytest.mark.parametrize("kind", ["classifier", "rectifier", "joint", "relative", "closer", "closer relative", "rival"])
def test_they_learn_the_same(kind, tmp_path, monkeypatch):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*without CUDA graphs.*")
        played = trained(kind, tmp_path / "played", monkeypatch, True)
    plain, start = trained(kind, tmp_path / "plain", monkeypatch, False), trained(kind, None, monkeypatch, False)
    way = sum((value - start[name]).abs().sum() for name, value in plain.items())
    apart = sum((value - played[name]).abs().sum() for name, value in plain.items())
    assert way > 0
    assert apart < 0.1 * way, "a GPU sums the gradient of a warp in any order, which is a little"


@needs_cuda
def test_a_second_call_in_a_step_does_not_overwrite_the_first():
    layer = torch.nn.Linear(3, 2).cuda()
    played, images = PlayedBack(layer, layer), [torch.rand(4, 3, device="cuda") for _ in range(6)]
    for one, other in zip(images[::2], images[1::2], strict=True):
        played.next_step()
        first, second = played(one), played(other)
        torch.testing.assert_close(first, layer(one))
        torch.testing.assert_close(second, layer(other))
        (first.sum() + 2 * second.sum()).backward()
        torch.testing.assert_close(layer.weight.grad, (one.sum(0) + 2 * other.sum(0)).expand(2, 3))
        layer.zero_grad()


@needs_cuda
def test_a_network_that_waits_for_the_gpu_is_trained_as_it_is():
    layer = torch.nn.Linear(3, 2).cuda()

    def waits(images: torch.Tensor) -> torch.Tensor:
        return layer(images) * float(images.sum().item() > 0)

    played, images = PlayedBack(waits, layer), torch.rand(4, 3, device="cuda")
    played(images)
    with pytest.warns(UserWarning, match="without CUDA graphs"):
        torch.testing.assert_close(played(images), layer(images))
    torch.rand(1, device="cuda")
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_elsewhere_than_on_cuda_nothing_is_recorded(tmp_path):
    model = TokenSTN(classifier(), ("rotation",))
    played = PlayedBack(model.heads, model.localizer)
    images = torch.rand(2, 3, 32, 32)
    for _ in range(3):
        assert torch.equal(played(images)["rotation"], model.heads(images)["rotation"])
    assert played._kept == {}
    engine.train_rectifier(
        model, table(), replace(RECIPE, epochs=1), tmp_path, machine=engine.Machine("cpu", progress=False)
    )
    assert "heads" not in vars(model)
    PlayBack(model).put_back()
