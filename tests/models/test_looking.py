"""Views in batches: the same answers, no more memory than one view of the same batch."""

import pytest
import torch

from tokenstn.geometry import warp
from tokenstn.models.looking import FEW, ROOM, look_at_all, look_at_used
from tokenstn.models.prediction import answer_entropy, odds_of
from tokenstn.posteriors import Views

from .classifiers import PlainCNN

BATCH, VIEWS = FEW + 8, 5


class Asked:
    """A classifier that remembers how many images it was asked about at once."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.network, self.batches = PlainCNN(channels=1, classes=3).eval(), []

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        self.batches.append(len(images))
        return self.network(images).softmax(-1)


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(BATCH, 1, 28, 28, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def views() -> Views:
    generator = torch.Generator().manual_seed(1)
    matrices = torch.eye(3) + 0.2 * torch.rand(BATCH, VIEWS, 3, 3, generator=generator)
    matrices[..., 2, :] = torch.tensor([0.0, 0.0, 1.0])
    weights = torch.rand(BATCH, VIEWS, generator=generator)
    return Views(matrices, weights / weights.sum(1, keepdim=True))


def test_without_gradients_one_view_of_the_batch_goes_through_at_a_time(images, views):
    together, apart = Asked(), Asked()
    expected = look_at_all(images, views, together, multi_label=False)
    with torch.no_grad():
        found = look_at_all(images, views, apart, multi_label=False)
    assert together.batches == [BATCH * VIEWS] and apart.batches == [BATCH] * VIEWS
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_a_small_batch_is_filled_up_with_its_views(images, views):
    asked, few = Asked(), Views(views.matrices[:4], views.weights[:4])
    look_at_all(images[:4], few, asked, multi_label=False)
    assert asked.batches == [4 * VIEWS]


@torch.no_grad()
def test_views_of_weight_zero_cost_nothing(images, views):
    weights = views.weights.clone()
    weights[:, 1:] = torch.where(weights[:, 1:] < 0.2, 0.0, weights[:, 1:])
    some = Views(views.matrices, weights / weights.sum(1, keepdim=True))
    all_of_them, used = Asked(), Asked()
    expected = look_at_all(images, some, all_of_them, multi_label=False)
    *found, weights_used = look_at_used(images, some, used, multi_label=False)
    assert torch.equal(weights_used.weights, some.weights)
    assert sum(used.batches) == int((weights > 0).sum()) < weights.numel()
    first, *further = used.batches
    assert first == BATCH and max(further) <= ROOM * BATCH and max(further) - min(further) <= 1
    assert sum(further) > (len(further) - 1) * ROOM * BATCH, "in no more batches than needed"
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_one_view_is_enough_where_its_answer_is_sure(images, views):
    asked, every = Asked(), Asked()
    first = every(warp(images, views.matrices[:, 0]))
    odds = odds_of(first)
    limit = odds.median().item()
    sure = odds >= limit
    *found, used = look_at_used(images, views, asked, multi_label=False, sure=limit)
    expected = look_at_all(images, views, every, multi_label=False)
    assert 0 < int(sure.sum()) < BATCH
    assert sum(asked.batches) == BATCH + (VIEWS - 1) * int((~sure).sum())
    assert torch.equal((used.weights > 0).sum(1), torch.where(sure, 1, VIEWS))
    torch.testing.assert_close(used.weights.sum(1), torch.ones(BATCH))
    torch.testing.assert_close(found[0][sure], first[sure])
    torch.testing.assert_close(found[1][sure], torch.zeros(int(sure.sum())), atol=1e-6, rtol=0)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one[~sure], other[~sure], atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_further_views_are_read_as_asked_for_and_the_first_is_not(images, views):
    modes = ("bilinear", *("bicubic",) * (VIEWS - 1))
    answers = [Asked()(warp(images, views.matrices[:, view], mode=mode)) for view, mode in enumerate(modes)]
    expected = (views.weights.unsqueeze(-1) * torch.stack(answers, 1)).sum(1)
    mean, _, first, _ = look_at_used(images, views, Asked(), multi_label=False, further="bicubic")
    torch.testing.assert_close(mean, expected, atol=1e-6, rtol=1e-5)
    assert torch.equal(first, warp(images, views.matrices[:, 0]))
    bilinear, *_ = look_at_used(images, views, Asked(), multi_label=False)
    assert (bilinear - mean).abs().max() > 1e-3


@torch.no_grad()
def test_where_all_are_sure_nothing_more_is_asked(images, views):
    asked = Asked()
    look_at_used(images, views, asked, multi_label=False, sure=1.0)
    assert asked.batches == [BATCH], "a batch of no image is an error in some of a GPU's kernels"


def test_odds_compare_the_answer_with_the_next_one():
    torch.testing.assert_close(odds_of(torch.tensor([[0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])), torch.tensor([2.0, 3.0]))
    torch.testing.assert_close(odds_of(torch.tensor([0.9, 0.25]), multi_label=True), torch.tensor(3.0))
    assert odds_of(torch.ones(2, 1)).tolist() == [float("inf")] * 2


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_gradient_of_a_doubt_is_finite_where_an_answer_is_certain(multi_label):
    logits = torch.tensor([[200.0, 0.0, 0.0], [0.0, 200.0, 0.0]], requires_grad=True)
    probabilities = logits.sigmoid() if multi_label else logits.softmax(-1)
    answer_entropy(probabilities, multi_label).sum().backward()
    assert logits.grad is not None and bool(logits.grad.isfinite().all())
