"""A recorded rectifier gives the answers of one that is not, also when weights change, and survives being copied."""

from __future__ import annotations

import copy
import weakref
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import pytest
import timm
import torch

from tokenstn import TokenSTN
from tokenstn.geometry.constants import _made, constants_used, numbers
from tokenstn.models import AutoViews, recording
from tokenstn.models.recording import Recorder

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


def model_that_turns(seed: int = 0, primitives: tuple[str, ...] = ("rotation", "scale", "translation")) -> TokenSTN:
    """A model whose heads differ from the identity."""
    torch.manual_seed(seed)
    classifier = timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=5, depth=3)
    model = TokenSTN(classifier, primitives).eval()
    assert model.localizer is not None
    for head in model.localizer.heads.values():
        torch.nn.init.normal_(head[-1].weight)  # pyright: ignore
    return model


def require_same(one, other, **within) -> None:
    torch.testing.assert_close(one.probabilities, other.probabilities, **within)
    torch.testing.assert_close(one.pose.matrix, other.pose.matrix, **within)
    torch.testing.assert_close(one.views.weights, other.views.weights, **within)
    torch.testing.assert_close(one.rectified, other.rectified, **within)
    for name, value in one.entropy.items():
        torch.testing.assert_close(value, other.entropy[name], **within)


@pytest.mark.parametrize("views", [1, 3, "auto"])
def test_elsewhere_than_on_cuda_nothing_changes(views):
    model, images = model_that_turns(), torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        require_same(model(images, views=views), copy.deepcopy(model).record()(images, views=views))


class Live(Recorder):
    """Takes the way of a recording anywhere, and computes what it would have played back."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []

    def takes(self, images):
        return True

    def __call__(self, reading, *inputs, views, blur=0.0):
        self.read.append(len(inputs[0]))
        return reading(*inputs, views=views, blur=blur)


@torch.no_grad()
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("views", [1, 3, "auto"])
def test_the_way_by_recordings_leads_to_the_same_answers(views, share):
    plain, images = model_that_turns(primitives=("rotation", "scale")), torch.rand(9, 3, 64, 64)
    once = plain.localize(images)["rotation"].entropy().sort().values
    doubted = round(share * 9)
    plain.auto = AutoViews(doubt=1.0 if doubted == 0 else max(0.0, once[9 - doubted].item() - 1e-4))
    recorded = copy.deepcopy(plain)
    recorded._recorder = Live()
    require_same(plain(images, views=views), recorded(images, views=views), atol=1e-4, rtol=1e-3)
    again = [3 * -(-doubted // 3)] if doubted and views == "auto" else []  # filled up to quarters of nine images
    assert recorded._recorder.read == [9, *again]


class NoGraphs:
    """torch, but for CUDA: what is recorded is computed, as it is at the first call."""

    cuda = SimpleNamespace(
        current_stream=lambda device: SimpleNamespace(wait_stream=lambda other: None),
        Stream=lambda device: SimpleNamespace(wait_stream=lambda other: None),
        CUDAGraph=SimpleNamespace,
        **{name: lambda *_, **__: nullcontext() for name in ("device", "stream", "graph")},
    )

    def __getattr__(self, name):
        return getattr(torch, name)


@torch.no_grad()
def test_a_recording_keeps_the_constants_that_it_reads(monkeypatch):
    """A CUDA graph keeps no tensor alive that was there before it."""
    monkeypatch.setattr(recording, "torch", NoGraphs())
    _made.cache_clear()  # what a compiled graph was given stays with it
    model, images, like = model_that_turns(), torch.rand(2, 3, 64, 64), torch.zeros(())
    kept = recording._Recording(partial(model._aimed, views=5, blur=0.3), [images], None)
    with constants_used() as used:
        model._aimed(images, views=5, blur=0.3)
    read = [weakref.ref(each) for each in used]
    used.clear()
    for number in range(2000, 2300):
        numbers((float(number),), like)
    assert len(read) > 5 and all(each() is not None for each in read)
    kept.constants.clear()
    assert all(each() is None for each in read), "nobody else does"


@needs_cuda
@pytest.mark.parametrize("views", [1, 3, "auto"])
def test_answers_are_the_same_for_every_batch_and_after_the_weights_changed(views):
    plain = model_that_turns().cuda()
    recorded = copy.deepcopy(plain).record()
    with torch.inference_mode():
        for count in (4, 2, 4, 4):
            images = torch.rand(count, 3, 64, 64, device="cuda")
            require_same(plain(images, views=views), recorded(images, views=views))
        first = recorded(images, views=views)
        kept = first.pose.rotation.clone()
        recorded(torch.rand_like(images), views=views)
        assert torch.equal(first.pose.rotation, kept), "an answer does not change under the feet of its owner"
        for change in (lambda m: m.load_state_dict(model_that_turns(1).state_dict()), lambda m: m.cpu().cuda()):
            change(plain), change(recorded)
            require_same(plain(images, views=views), recorded(images, views=views))


@needs_cuda
def test_autocast_is_recorded_as_it_is():
    plain = model_that_turns().cuda()
    recorded, images = copy.deepcopy(plain).record(), torch.rand(4, 3, 64, 64, device="cuda")
    with torch.inference_mode():
        for enabled in (True, False, True):
            with torch.autocast("cuda", torch.bfloat16, enabled=enabled):
                require_same(plain(images, views=1), recorded(images, views=1))


@needs_cuda
def test_gradients_flow_as_before():
    model, images = model_that_turns().cuda().record(), torch.rand(2, 3, 64, 64, device="cuda")
    model(images, views=1).pose.rotation.sum().backward()
    assert any(parameter.grad is not None for parameter in model.localizer.parameters())


@needs_cuda
def test_images_in_doubt_are_read_again_from_recordings():
    plain = model_that_turns(primitives=("rotation", "scale")).cuda()
    recorded = copy.deepcopy(plain).record()
    with torch.inference_mode():
        for count in (1, 9, 9, 16, 9):
            images = torch.rand(count, 3, 64, 64, device="cuda")
            once = plain.localize(images)["rotation"].entropy()
            for doubt in (0.0, once.median().item() + 1e-4, 1.0):  # all of them, half of them, none
                plain.auto = recorded.auto = AutoViews(doubt=doubt)
                # a batch that is filled up may be multiplied by another kernel
                require_same(plain(images, views="auto"), recorded(images, views="auto"), atol=1e-4, rtol=1e-3)
        assert len(recorded._recorder._kept) < 12, "for each batch, and for each quarter of it"
