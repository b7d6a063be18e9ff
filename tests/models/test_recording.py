"""A recorded rectifier gives the answers of one that is not, also when weights change, and survives being copied."""

from __future__ import annotations

import copy
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import pytest
import timm
import torch
from torch.utils.flop_counter import FlopCounterMode

from tokenstn import TokenSTN
from tokenstn.geometry.constants import _made, constants_used, numbers
from tokenstn.models import AutoViews, recording
from tokenstn.models.recording import MOST_SHAPES, UNASKED, Recorder, Weights

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

    def __init__(self, asked: bool = True) -> None:
        super().__init__(asked)
        self.read: list[int] = []

    def takes(self, images):
        return True

    def __call__(self, reading, *inputs, views, blur=0.0):
        self.read.append(len(inputs[0]))
        return reading(*inputs, views=views, blur=blur)


class Played:
    """What stands for a recording where there are no CUDA graphs: it says that it was asked."""

    made: ClassVar[list[Played]] = []

    def __init__(self, reading, inputs, pool) -> None:
        self.graph = SimpleNamespace(pool=lambda: None)
        self.made.append(self)

    def __call__(self, inputs):
        return "played back"


@pytest.fixture
def recordings(monkeypatch):
    """The recordings that were made."""
    monkeypatch.setattr(recording, "_Recording", Played)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: "the only stream")
    monkeypatch.setattr(Played, "made", [])
    return Played.made


def answers_of(recorder: Recorder, calls: int, batch: int = 2) -> list:
    return [recorder(lambda images, views, blur: "computed", torch.zeros(batch, 3), views=1) for _ in range(calls)]


def test_a_shape_is_recorded_at_once_where_that_was_asked_for_and_else_when_it_keeps_coming(recordings):
    assert answers_of(Recorder(), 2) == ["played back"] * 2
    assert answers_of(Recorder(asked=False), 4) == ["computed"] * UNASKED + ["played back"] * (4 - UNASKED)
    assert len(recordings) == 2


def test_nobody_who_did_not_ask_waits_for_many_shapes(recordings):
    unasked, asked = Recorder(asked=False), Recorder()
    for batch in range(1, MOST_SHAPES + 5):
        answers_of(unasked, UNASKED + 1, batch), answers_of(asked, 1, batch)
    assert len(recordings) == MOST_SHAPES + MOST_SHAPES + 4
    assert answers_of(unasked, 1, 1) == ["played back"], "the first ones stay"
    assert answers_of(unasked, 9, MOST_SHAPES + 2) == ["computed"] * 9


@pytest.mark.parametrize("asked", [True, False])
def test_a_network_that_cannot_be_recorded_is_computed(monkeypatch, asked):
    def waits(*_):
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(recording, "_Recording", waits)
    recorder = Recorder(asked)
    with pytest.warns(UserWarning, match="not recorded.*capturing") if asked else nullcontext():
        assert answers_of(recorder, 5) == ["computed"] * 5
    assert not recorder.takes(torch.zeros(1))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m.localizer.projection, "weight", torch.nn.Parameter(m.localizer.projection.weight.clone())),
        lambda m: m.localizer.heads.update({"rotation": copy.deepcopy(m.localizer.heads["rotation"])}),
        lambda m: m.classifier.double(),
        lambda m: setattr(m, "localization_size", 0.75),
    ],
    ids=["a weight is exchanged", "a layer is exchanged", "the classifier alone is cast", "another size is read"],
)
def test_a_recording_is_not_played_back_after_what_it_reads_has_changed(recordings, change):
    model, recorder = model_that_turns(), Recorder()

    def call() -> None:
        recorder.tie((model.classifier, model.localizer), model.localization_size)
        answers_of(recorder, 2)

    call(), call()
    assert len(recordings) == 1
    change(model)
    call(), call()
    assert len(recordings) == 2


def test_weights_that_are_trained_or_loaded_stay_where_they_are():
    model = model_that_turns()
    weights = Weights((model,))
    before = weights.places()
    model.load_state_dict(model_that_turns(1).state_dict())
    with torch.no_grad():
        for each in model.parameters():
            each.add_(1)
    assert weights.places() == before


def test_what_is_counted_or_traced_is_computed():
    images, recorder = SimpleNamespace(is_cuda=True), Recorder(asked=False)
    with torch.no_grad(), FlopCounterMode(display=False):
        assert not recorder.takes(images)  # pyright: ignore[reportArgumentType]
    assert not recorder.takes(images)  # pyright: ignore[reportArgumentType]


def test_copies_and_pickles_make_recordings_of_their_own(recordings):
    model = model_that_turns()
    answers_of(model.record()._recorder, 1)
    for copied in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied._recorder.asked and copied._recorder is not model._recorder
        answers_of(copied._recorder, 1)
    assert len(recordings) == 4
    assert model.record(False)._recorder is None and copy.copy(model)._recorder is None


def test_only_classifiers_that_are_known_and_evaluate_are_recorded_unasked():
    model, own = model_that_turns(), TokenSTN(Own(), ("rotation",), shared="layer", input_size=(8, 8)).eval()
    assert model._may_record(model._recorder) and not own._may_record(own._recorder)
    assert not model.train()._may_record(model._recorder)
    assert own.record()._may_record(own._recorder)


class Own(torch.nn.Module):
    """A classifier of nobody's package."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 4, 1)

    def forward(self, images):
        return self.layer(images).mean((-2, -1))


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
@pytest.mark.parametrize("views", [1, "auto"])
def test_what_nobody_asked_to_record_gives_the_same_answers(views):
    model = model_that_turns().cuda()
    plain = copy.deepcopy(model).record(False)
    for number in range(12):
        images = torch.rand(3, 3, 64, 64, device="cuda")
        with (torch.inference_mode, torch.no_grad)[number % 2]():
            require_same(plain(images, views=views), model(images, views=views))
        if number == 5:
            assert model._recorder._kept
            for each in (model, plain):
                each.localizer.heads["rotation"][-1].weight = torch.nn.Parameter(
                    -each.localizer.heads["rotation"][-1].weight.detach()
                )


@needs_cuda
def test_several_threads_get_their_own_answers():
    model = model_that_turns().cuda().record()
    plain = copy.deepcopy(model).record(False)
    batches = [torch.rand(3, 3, 64, 64, device="cuda") for _ in range(40)]

    def answer(images):
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            found = model(images, views=1)
            torch.cuda.current_stream().synchronize()
            return found

    torch.cuda.synchronize()
    with ThreadPoolExecutor(4) as pool, torch.no_grad():
        for images, found in zip(batches, pool.map(answer, batches), strict=True):
            require_same(plain(images, views=1), found)


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
