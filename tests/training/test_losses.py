"""Classification and KL, against torch's own losses and by hand."""

import math

import pytest
import torch
from torch.nn import functional as F

from tokenstn.geometry import Rotation, Scale
from tokenstn.posteriors import Circular, Gaussian
from tokenstn.training import classification_loss, kl_loss

LOGITS = torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.tensor([0, 1, 2, 3, 4, 0])
MANY = (torch.rand(6, 5, generator=torch.Generator().manual_seed(1)) > 0.5).double()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_one_view_is_cross_entropy(smoothing):
    ours = classification_loss(LOGITS.softmax(-1), LABELS, label_smoothing=smoothing)
    torch.testing.assert_close(ours, F.cross_entropy(LOGITS, LABELS, label_smoothing=smoothing))


def test_multi_label_is_binary_cross_entropy():
    ours = classification_loss(LOGITS.sigmoid(), MANY, multi_label=True)
    torch.testing.assert_close(ours, F.binary_cross_entropy_with_logits(LOGITS, MANY))


def test_multi_label_smoothing_is_that_of_two_classes():
    two = torch.stack((torch.zeros_like(LOGITS), LOGITS), -1).flatten(0, 1)
    theirs = F.cross_entropy(two, MANY.flatten().long(), label_smoothing=0.1)
    torch.testing.assert_close(classification_loss(LOGITS.sigmoid(), MANY, True, 0.1), theirs)


def test_probabilities_are_averaged_before_the_logarithm():
    views = torch.tensor([[[0.9, 0.1], [0.1, 0.9]]])
    assert classification_loss(views.mean(1), torch.tensor([0])).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_probability_of_zero_is_finite_and_so_is_its_gradient(multi_label):
    p = torch.tensor([[0.0, 1.0], [1.0, 0.0]], requires_grad=True)
    target = torch.tensor([[1.0, 0.0], [1.0, 1.0]]) if multi_label else torch.tensor([0, 1])
    loss = classification_loss(p, target, multi_label)
    loss.backward()
    assert loss.isfinite() and loss > 10 and p.grad.isfinite().all()


def test_a_label_that_is_surely_wrong_costs_no_more_than_float32_can_tell():
    def loss(logit: float) -> float:
        return classification_loss(torch.tensor([[logit]]).sigmoid(), torch.zeros(1, 1), multi_label=True).item()

    near, beyond = loss(16.0), loss(20.0)
    assert near == pytest.approx(16, abs=0.1) and near < beyond < near + 2, "no jump where 1 − p is rounded to 0"


def test_a_very_wrong_prediction_keeps_its_gradient():
    logits = torch.tensor([[0.0, 80.0]], requires_grad=True)
    classification_loss(logits.softmax(-1), torch.tensor([0])).backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[-1.0, 1.0]]))


@pytest.mark.parametrize("multi_label", [False, True])
def test_gradient(multi_label):
    def loss(logits):
        probabilities = logits.sigmoid() if multi_label else logits.softmax(-1)
        return classification_loss(probabilities, MANY if multi_label else LABELS, multi_label, 0.1)

    assert torch.autograd.gradcheck(loss, LOGITS.clone().requires_grad_())


def test_half_precision_probabilities_are_taken_in_fp32():
    p = torch.tensor([[0.25, 0.75]], dtype=torch.bfloat16)
    assert classification_loss(p, torch.tensor([1])).dtype == torch.float32


def test_targets_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"class indices \(B,\)"):
        classification_loss(LOGITS.softmax(-1), MANY)
    with pytest.raises(ValueError, match="multi-label"):
        classification_loss(LOGITS.sigmoid(), LABELS, multi_label=True)
    with pytest.raises(ValueError, match="label_smoothing"):
        classification_loss(LOGITS.softmax(-1), LABELS, label_smoothing=1.0)


def test_kl_sums_primitives_and_averages_images():
    raw = torch.randn(4, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    scale = Gaussian(Scale(), raw)
    width = torch.exp(3 * torch.tanh(raw[:, 1]) - 2)  # the paper's bounded log-variance, α = 6, β = 4
    by_hand = (0.5 * (width**2 - 1) - torch.log(width)).mean()
    torch.testing.assert_close(kl_loss({"scale": scale}), by_hand)
    ring = Circular(Rotation(), torch.randn(4, 36, generator=torch.Generator().manual_seed(3)))
    both = kl_loss({"rotation": ring, "scale": Gaussian(Scale(), raw.float())})
    torch.testing.assert_close(both, ring.kl().mean() + by_hand.float())


def test_kl_moves_the_width_and_not_the_mean():
    raw = torch.tensor([[0.3, 0.2]], requires_grad=True)
    kl_loss({"scale": Gaussian(Scale(), raw)}).backward()
    assert raw.grad[0, 0] == 0 and raw.grad[0, 1] != 0


def test_without_a_posterior_there_is_no_kl():
    assert kl_loss({}) == 0
