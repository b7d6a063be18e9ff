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
from tokenstn.models.recording import MOST_SHAPES, Recorder, Weights

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


class Played:
    """What stands for a recording where there are no CUDA graphs: it says that it was asked."""

    made: ClassVar[list[Played]] = []

    def __init__(self, reading, inputs, aside, pool) -> None:
        self.graph = SimpleNamespace(pool=lambda: None)
        self.made.append(self)

    def __call__(self, inputs):
        return "played back"


@pytest.fixture
def recordings(monkeypatch):
    """The recordings that were made, on a machine that is said to have a GPU."""
    monkeypatch.setattr(recording, "_Recording", Played)
    for name, stand_in in (
        ("current_stream", lambda device=None: "the only stream"),
        ("stream", lambda stream: nullcontext()),
        ("Stream", lambda device: "aside"),
        ("default_generators", [SimpleNamespace(clone_state=lambda: "before", graphsafe_set_state=RESTORED.append)]),
    ):
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(Played, "made", [])
    RESTORED.clear()
    return Played.made


RESTORED: list[str] = []  # states of the random numbers that were put back


def answers_of(recorder: Recorder, calls: int, batch: int = 2) -> list:
    return [recorder(lambda images, views, blur: "computed", torch.zeros(batch, 3), views=1) for _ in range(calls)]


def test_a_shape_is_recorded_once_and_the_oldest_makes_room(recordings):
    recorder = Recorder()
    assert answers_of(recorder, 3) == ["played back"] * 3 and len(recordings) == 1
    for batch in range(3, MOST_SHAPES + 3):
        answers_of(recorder, 2, batch)
    assert len(recordings) == MOST_SHAPES + 1 and len(recorder._kept) == MOST_SHAPES
    answers_of(recorder, 1)
    assert len(recordings) == MOST_SHAPES + 2, "the first one had to go"


def test_a_network_that_cannot_be_recorded_is_computed(recordings, monkeypatch):
    def waits(*_):
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(recording, "_Recording", waits)
    recorder, on_a_gpu = Recorder(), SimpleNamespace(is_cuda=True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with torch.no_grad():
        assert recorder.takes(on_a_gpu)  # pyright: ignore[reportArgumentType]
        with pytest.warns(UserWarning, match="not recorded.*is capturing$"):
            assert answers_of(recorder, 5) == ["computed"] * 5
        assert not recorder.takes(on_a_gpu)  # pyright: ignore[reportArgumentType]
    assert RESTORED == ["before"], "a capture that failed would leave the random numbers to it"


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m.localizer.projection, "weight", torch.nn.Parameter(m.localizer.projection.weight.clone())),
        lambda m: m.localizer.heads.update({"rotation": copy.deepcopy(m.localizer.heads["rotation"])}),
        lambda m: m.classifier.double(),
        lambda m: setattr(m, "localization_size", 0.75),
        lambda m: setattr(m, "closer_size", 1.0),
    ],
    ids=["a weight", "a layer", "the classifier alone is cast", "another size", "another closer size"],
)
def test_a_recording_is_not_played_back_after_what_it_reads_has_changed(recordings, change):
    model, images = model_that_turns().record(), torch.rand(2, 3, 64, 64)

    def call() -> None:
        assert model._played_back(model._recorder, images, 1) == "played back"

    call(), call()
    assert len(recordings) == 1
    change(model)
    call(), call()
    assert len(recordings) == 2


def test_what_was_exchanged_may_be_exchanged_again(recordings):
    model, recorder = model_that_turns(), Recorder()
    for number in range(1, 4):
        head = copy.deepcopy(model.localizer.heads["rotation"])
        model.localizer.heads["rotation"] = head
        for _ in range(2):
            recorder.tie((model.classifier, model.localizer), None)
            answers_of(recorder, 1)
        head[0].weight = torch.nn.Parameter(head[0].weight.clone())
        recorder.tie((model.classifier, model.localizer), None)
        answers_of(recorder, 1)
        assert len(recordings) == 2 * number


def test_weights_that_are_trained_or_loaded_stay_where_they_are():
    model = model_that_turns()
    weights = Weights((model,))
    before = weights.places()
    model.load_state_dict(model_that_turns(1).state_dict())
    with torch.no_grad():
        for each in model.parameters():
            each.add_(1)
    assert weights.places() == before


def test_what_is_counted_is_computed(monkeypatch):
    images, recorder = SimpleNamespace(is_cuda=True), Recorder()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with torch.no_grad():
        assert recorder.takes(images)  # pyright: ignore[reportArgumentType]
        with FlopCounterMode(display=False):
            assert not recorder.takes(images)  # pyright: ignore[reportArgumentType]
    assert not recorder.takes(images)  # pyright: ignore[reportArgumentType]


def test_copies_and_pickles_make_recordings_of_their_own(recordings):
    model = model_that_turns()
    answers_of(model.record()._recorder, 1)
    for copied in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied._recorder is not model._recorder
        answers_of(copied._recorder, 1)
    assert len(recordings) == 4
    assert model.record(False)._recorder is None and copy.copy(model)._recorder is None


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
    aside = SimpleNamespace(wait_stream=lambda other: None)
    kept = recording._Recording(partial(model._aimed, views=5, blur=0.3), [images], aside, None)  # pyright: ignore
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
def test_recordings_serve_in_and_outside_of_inference_mode_and_after_an_exchange(views):
    plain = model_that_turns().cuda()
    recorded = copy.deepcopy(plain).record()
    for number in range(6):
        images = torch.rand(3, 3, 64, 64, device="cuda")
        with (torch.inference_mode, torch.no_grad)[number % 2]():
            require_same(plain(images, views=views), recorded(images, views=views))
        if number == 3:
            for each in (recorded, plain):
                last = each.localizer.heads["rotation"][-1]
                last.weight = torch.nn.Parameter(-last.weight.detach())


@needs_cuda
def test_a_network_that_waits_for_the_gpu_leaves_it_as_it_was():
    model = model_that_turns().cuda().record()
    read = model.backbone.prefix
    model.backbone.prefix = lambda images: read(images) * float(images.isfinite().all().item())
    images = torch.rand(3, 3, 64, 64, device="cuda")
    with torch.no_grad():
        with pytest.warns(UserWarning, match="not recorded"):
            first = model(images, views=1)
        require_same(first, model(images, views=1))
        assert torch.rand(4, device="cuda").std() > 0, "and random numbers are drawn as before"


@needs_cuda
def test_several_threads_get_their_own_answers():
    model = model_that_turns().cuda().record()
    plain = copy.deepcopy(model).record(False)
    for count in (1, 3):
        with torch.no_grad():
            model(torch.rand(count, 3, 64, 64, device="cuda"), views=1)  # recorded before others wait for the GPU
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
