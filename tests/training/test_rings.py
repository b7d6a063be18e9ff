"""The three terms that teach a ring to follow a turn, against brute force."""

import math
import socket

import numpy as np
import pytest
import torch
from torch import Tensor, distributed, multiprocessing
from torch.nn import functional as F

from tokenstn.geometry import Rotation
from tokenstn.posteriors import Circular
from tokenstn.training.rings import ring_loss, shift_logits

STEP = math.radians(10)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ring(raw: Tensor, bound: float = math.pi) -> Circular:
    return Circular(Rotation(bound), raw)


def by_hand(first: np.ndarray, second: np.ndarray, bins: list[float]) -> float:
    """The loss for turns given in bins, with loops and no FFT."""
    rings = [x - x.mean(1, keepdims=True) for x in (first, second)]
    common = np.concatenate(rings).mean(0)
    losses = []
    for a, b, place in zip(*rings, bins, strict=True):
        low, share = math.floor(place), place - math.floor(place)
        u, v = ((x - common) / np.sqrt((x - common).var() + 0.01) for x in (a, b))
        logits = np.array([8 * np.mean([u[k] * v[(k + s) % 36] for k in range(36)]) for s in range(36)])
        log_p = logits - np.log(np.exp(logits).sum())
        shape = -(1 - share) * log_p[low % 36] - share * log_p[(low + 1) % 36]
        p, q = (np.exp(x - common) / np.exp(x - common).sum() for x in (a, b))
        likely = [sum(p[k] * q[(k + s) % 36] for k in range(36)) for s in (low, low + 1)]
        flat = np.mean([max(0, 0.1 - (x - common).std()) for x in (a, b)])
        losses.append(shape - math.log((1 - share) * likely[0] + share * likely[1] + 1e-4 / 36) + flat)
    return float(np.mean(losses) + (common**2).mean() / max(1, np.mean(np.square(rings))))


@pytest.mark.parametrize("size", [0.05, 1.0, 3.0])
def test_the_loss_is_what_it_says(size):
    first, second = size * noise(4, 36), size * noise(4, 36, seed=1) + 0.5
    bins = [7.0, 35.0, 12.25, -0.5]
    found = ring_loss(ring(first), ring(second), STEP * torch.tensor(bins).double())
    assert found.item() == pytest.approx(by_hand(first.numpy(), second.numpy(), bins), abs=1e-4)


def test_normalisation_is_torchs_layer_norm():
    first, second = noise(3, 36), noise(3, 36, seed=1)
    a, b = F.layer_norm(first, (36,), eps=0.01), F.layer_norm(second, (36,), eps=0.01)
    expected = torch.stack([8 * (a * b.roll(-s, -1)).mean(-1) for s in range(36)], -1)
    torch.testing.assert_close(shift_logits(first, second), expected)


@pytest.mark.parametrize("bins", [0, 1, 17, 35])
def test_a_turned_ring_has_its_turn_as_most_likely_shift(bins):
    raw = noise(4, 36)
    logits = shift_logits(raw, raw.roll(bins, -1))
    assert (logits.argmax(-1) == bins).all()
    torch.testing.assert_close(logits.amax(-1), torch.full((4,), 8.0, dtype=torch.float64), rtol=0.03, atol=0)


def test_flat_rings_and_equal_rings_are_not_content():
    turn = STEP * torch.arange(32).double()
    raw = 5 * noise(32, 36)
    after = torch.stack([row.roll(k) for k, row in enumerate(raw)])
    flat, same = torch.zeros(32, 36).double(), raw[:1].expand(32, -1)
    right = ring_loss(ring(raw), ring(after), turn)
    assert right + 3 < ring_loss(ring(flat), ring(flat), turn)
    assert right + 3 < ring_loss(ring(same), ring(same), turn)


def test_a_bounded_ring_ignores_the_bins_outside():
    bound, turn = math.radians(60), torch.tensor([STEP, -2 * STEP]).double()
    raw, second = noise(2, 36), ring(noise(2, 36, seed=1), bound)
    first = ring(raw, bound)
    changed = ring(torch.where(first.allowed, raw, 9.0), bound)
    loss = ring_loss(first, second, turn)
    assert loss.isfinite()
    torch.testing.assert_close(ring_loss(changed, second, turn), loss)


def test_a_turn_that_bounded_rings_cannot_make_is_finite():
    first, second = (ring(noise(2, 36, seed=s).requires_grad_(), math.radians(30)) for s in (0, 1))
    loss = ring_loss(first, second, torch.full((2,), math.pi).double())
    loss.backward()
    assert loss.isfinite() and first.raw.grad.isfinite().all()


def test_sharpness_is_calibrated():
    """Angles drawn from the rings themselves: neither blunter nor sharper rings have a better likelihood."""
    shape = torch.cos(
        ring(noise(1, 36)).angles
        - 2 * math.pi * torch.rand(4000, 1, generator=torch.Generator().manual_seed(1)).double()
    )
    belief = ring(4 * shape)
    generator = torch.Generator().manual_seed(0)
    turn = belief.sample(1, generator)[:, 0] - belief.sample(1, generator)[:, 0]

    def loss(size: float) -> float:
        return ring_loss(ring(size * shape), ring(size * shape), turn).item()  # the shapes, and their term, are equal

    assert loss(4.0) < min(loss(3.0), loss(5.5))


def test_the_shape_gradient_is_right():
    """With rings that are neither flat nor blunt the value has a gradient; its shape part is the correlation's."""
    raws = [noise(3, 36, seed=s).requires_grad_() for s in (7, 8)]
    assert torch.autograd.gradcheck(lambda a, b: shift_logits(a, b)[:, 3].sum(), raws)
    inside = ring(raws[0].detach(), 1.2).allowed
    assert torch.autograd.gradcheck(lambda a, b: shift_logits(a, b, inside)[:, 3].sum(), raws)


def test_it_runs_in_fp32_under_autocast():
    raw, turn = noise(2, 36).float(), torch.zeros(2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        within = ring_loss(ring(raw), ring(raw.roll(1, -1)), turn)
    assert within.dtype == torch.float32 and within == ring_loss(ring(raw), ring(raw.roll(1, -1)), turn)


def gradients(rank: int, world: int, rings: Tensor, turn: Tensor, port: int, answers) -> None:
    """One process of a distributed run: the gradient of its share of the images, as DDP averages it."""
    store = distributed.TCPStore("127.0.0.1", port, world, is_master=rank == 0)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=world)
    share = rings[:, rank::world].clone().requires_grad_()
    ring_loss(Circular(Rotation(), share[0]), Circular(Rotation(), share[1]), turn[rank::world]).backward()
    answers.put((rank, (share.grad / world).tolist()))
    distributed.destroy_process_group()


def test_two_processes_share_their_mean_ring():
    generator = torch.Generator().manual_seed(0)
    rings = 2 * torch.randn(2, 12, 36, generator=generator) + torch.randn(36, generator=generator)
    turn = STEP * torch.randint(36, (12,), generator=generator)
    whole = rings.clone().requires_grad_()
    ring_loss(Circular(Rotation(), whole[0]), Circular(Rotation(), whole[1]), turn).backward()
    assert whole.grad is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answers = multiprocessing.get_context("spawn").SimpleQueue()
    multiprocessing.spawn(gradients, (2, rings, turn, port, answers), nprocs=2)
    for _ in range(2):
        rank, found = answers.get()
        torch.testing.assert_close(torch.tensor(found), whole.grad[:, rank::2], atol=1e-6, rtol=1e-4)
