"""Constants: made once, safe to train with, and there for as long as somebody remembers where."""

import threading
import weakref
from functools import partial

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from tokenstn.geometry import Pose, warp
from tokenstn.geometry.constants import constant, constants_used, numbers, scalar


def test_a_constant_is_made_once_for_each_dtype():
    made = []

    def make(count: int, device: torch.device) -> torch.Tensor:
        made.append(count)
        return torch.arange(count, device=device)

    single, double = torch.zeros(()), torch.zeros((), dtype=torch.float64)
    first = constant(make, 3, like=single)
    assert constant(make, 3, like=single) is first
    assert constant(make, 3, like=double).dtype == torch.float64 and constant(make, 4, like=single).tolist()[-1] == 3
    assert made == [3, 3, 4]


def test_numbers_keep_their_digits():
    values = (0.1, 1 / 3)
    assert numbers(values, torch.zeros((), dtype=torch.float64)).tolist() == list(values)
    assert scalar(0.1, torch.zeros(())).item() == torch.tensor(0.1).item()


def test_what_was_first_used_in_inference_mode_can_be_trained_with():
    images = torch.rand(1, 1, 13, 17)  # a size that no other test has looked at
    with torch.inference_mode():
        warp(images, Pose.of(rotation=torch.tensor([0.3])).matrix, validate=False)
    angle = torch.tensor([0.3], requires_grad=True)
    warp(images, Pose.of(rotation=angle).matrix, validate=False).sum().backward()
    assert angle.grad is not None and angle.grad.abs().item() > 0


def test_what_was_first_used_among_fake_tensors_can_be_computed_with_later():
    real = torch.rand(1, 1, 19, 23)  # a size that no other test has looked at

    def turned(images: torch.Tensor) -> torch.Tensor:
        return warp(images, Pose.of(rotation=torch.full((1,), 0.3), scale=1.53).matrix, validate=False)

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        for images in (torch.rand(1, 1, 19, 23), mode.from_tensor(real), real):
            assert isinstance(turned(images), FakeTensor) and turned(images).shape == real.shape
    assert not isinstance(turned(real), FakeTensor) and bool(turned(real).isfinite().all())
    fake = FakeTensorMode().from_tensor(torch.tensor([0.3]))  # also for one that has left its mode
    assert isinstance(Pose.of(rotation=fake, scale=1.53, translation=(0.1, 0.7)).matrix, FakeTensor)
    with FakeTensorMode():  # also where they were made before
        assert turned(torch.rand(1, 1, 19, 23)).shape == real.shape


def place(number: int, device: torch.device) -> torch.Tensor:
    return torch.full((2,), number, device=device)


def crowd_out() -> None:
    """Asks for more constants than are kept."""
    for number in range(1000, 1300):
        constant(place, number, like=torch.zeros(()))


def test_a_constant_that_is_used_in_a_block_lives_as_long_as_its_list():
    like = torch.zeros(())
    constant(place, 1, like=like)
    with constants_used() as used, constants_used() as inner:
        kept = weakref.ref(constant(place, 1, like=like))  # also one that was there before
    assert len(inner) == 1 and used == []
    left = weakref.ref(constant(place, 2, like=like))
    crowd_out()
    assert kept() is not None and left() is None
    inner.clear()
    assert kept() is None


def test_constants_that_other_threads_use_meanwhile_are_theirs():
    with constants_used() as used:
        thread = threading.Thread(target=crowd_out)
        thread.start()
        thread.join()
    assert used == []


def test_poses_of_any_number_push_no_constant_out():
    kept = weakref.ref(constant(place, 3, like=torch.zeros(())))
    for number in range(300):
        Pose.of(rotation=0.01 * number, scale=1 + 0.01 * number, translation=(0.01 * number, 0.02 * number))
    assert kept() is not None


@pytest.mark.parametrize("compiling", [False, True])
def test_it_has_the_dtype_and_the_device_of_its_example_in_a_traced_graph_too(monkeypatch, compiling):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    found = constant(torch.arange, 3, like=torch.zeros((), dtype=torch.float64))
    assert found.dtype == torch.float64 and found.tolist() == [0, 1, 2]
    elsewhere = torch.zeros((), dtype=torch.float16, device="meta")
    for there in (constant(torch.arange, 3, like=elsewhere), numbers((1.0, 2.0), elsewhere), scalar(2.0, elsewhere)):
        assert there.device.type == "meta" and there.dtype == torch.float16


def operations_of(size: int, dynamic: bool) -> list[str]:
    """What a compiled warp of square images does, after a check that it is the plain one."""
    graphs = []

    def keep(graph: torch.fx.GraphModule, _) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    images, views = torch.rand(2, 1, size, size), Pose.of(rotation=torch.tensor([0.3, -2.0])).matrix
    torch._dynamo.reset()
    plain = partial(warp, validate=False)
    found = torch.compile(plain, fullgraph=True, dynamic=dynamic, backend=keep)(images, views)
    torch.testing.assert_close(found, plain(images, views))
    return [str(node.target) for graph in graphs for node in graph.graph.nodes if node.op == "call_function"]


def test_a_compiled_graph_is_given_constants_and_makes_them_only_for_images_of_any_size():
    assert not [name for name in operations_of(11, dynamic=False) if "arange" in name]
    assert [name for name in operations_of(11, dynamic=True) if "arange" in name]
