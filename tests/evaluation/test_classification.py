"""AUC, F1, sensitivity and specificity against scikit-learn and torchmetrics, exactly and from a stream."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from torchmetrics.functional import classification as tm

from tokenstn.evaluation.classification import OrbitDiscrimination, discrimination
from tokenstn.evaluation.results import Discrimination


def answers(n: int, classes: int, seed: int = 0, skill: float = 1.5) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities (n, classes) of a fair classifier, and classes that all occur."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(n) % classes
    logits = torch.randn(n, classes, generator=generator)
    logits[torch.arange(n), target] += skill
    return logits.softmax(1), target


def labels(n: int, count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(n, count, generator=generator) < 0.3
    return (torch.randn(n, count, generator=generator) + 1.5 * target).sigmoid(), target.long()


def test_several_classes_as_scikit_learn_and_torchmetrics_have_them():
    p, target = answers(300, 5)
    found, predicted = discrimination(p, target), p.argmax(1)
    wide = p.double()
    assert found.auc == pytest.approx(
        metrics.roc_auc_score(target, wide / wide.sum(1, keepdim=True), multi_class="ovr")
    )
    assert found.f1 == pytest.approx(metrics.f1_score(target, predicted, average="macro"))
    assert found.sensitivity == pytest.approx(metrics.balanced_accuracy_score(target, predicted))
    assert found.auc == pytest.approx(tm.multiclass_auroc(p, target, 5).item(), abs=1e-6)
    assert found.f1 == pytest.approx(tm.multiclass_f1_score(p, target, 5).item(), abs=1e-6)
    assert found.specificity == pytest.approx(tm.multiclass_specificity(p, target, 5).item(), abs=1e-6)
    assert found.threshold is None


@pytest.mark.parametrize("threshold", [None, 0.2])
def test_of_two_classes_the_second_counts(threshold):
    p, target = answers(200, 2)
    found, cut = discrimination(p, target, threshold=threshold), threshold or 0.5
    assert found.auc == pytest.approx(metrics.roc_auc_score(target, p[:, 1]))
    assert found.f1 == pytest.approx(metrics.f1_score(target, p[:, 1] > cut))
    assert found.sensitivity == pytest.approx(metrics.recall_score(target, p[:, 1] > cut))
    assert found.specificity == pytest.approx(metrics.recall_score(1 - target, p[:, 1] <= cut))
    assert found.specificity == pytest.approx(tm.binary_specificity(p[:, 1], target, cut).item(), abs=1e-6)
    assert found.threshold == cut


def test_several_labels_as_scikit_learn_and_torchmetrics_have_them():
    p, target = labels(200, 4)
    found = discrimination(p, target, multi_label=True)
    assert found.auc == pytest.approx(metrics.roc_auc_score(target, p, average="macro"))
    assert found.f1 == pytest.approx(metrics.f1_score(target, p > 0.5, average="macro"))
    assert found.sensitivity == pytest.approx(metrics.recall_score(target, p > 0.5, average="macro"))
    assert found.specificity == pytest.approx(tm.multilabel_specificity(p, target, 4).item(), abs=1e-6)


def test_classes_that_do_not_occur_are_left_out():
    p, target = answers(200, 3)
    more = torch.cat([p, torch.full((200, 7), 1e-9)], 1)
    assert discrimination(more, target) == discrimination(p, target)


def test_where_there_is_nothing_to_tell_apart_there_is_no_auc():
    p, _ = answers(20, 3)
    one_class = discrimination(p, torch.zeros(20).long())
    assert one_class.auc is None and one_class.specificity is None  # nothing that could be mistaken for it
    assert discrimination(p[:, :2], torch.zeros(20).long()).auc is None
    assert discrimination(p, torch.zeros(20, 3), multi_label=True).auc is None


@settings(deadline=None)
@given(st.integers(0, 999), st.sampled_from([2, 3, 6]))
def test_neither_the_order_of_the_data_nor_of_the_classes_matters(seed, classes):
    p, target = answers(40, classes, seed)
    found = dataclasses.astuple(discrimination(p, target))
    mixed = torch.randperm(40, generator=torch.Generator().manual_seed(seed))
    assert dataclasses.astuple(discrimination(p[mixed], target[mixed])) == pytest.approx(found)
    if classes > 2:
        renamed = discrimination(p.flip(1), classes - 1 - target)
        assert dataclasses.astuple(renamed) == pytest.approx(found)
    assert all(0 <= value <= 1 for value in found if value is not None)


@pytest.mark.parametrize("classes", [2, 5, 300])
@pytest.mark.parametrize("skill", [0.5, 8.0])
def test_a_stream_gives_the_exact_counts_and_nearly_the_exact_auc(classes, skill):
    p, target = answers(1200, classes, skill=skill)
    stream = OrbitDiscrimination(classes)
    for part, truth in zip(p.split(100), target.split(100), strict=True):
        stream.update(part, truth)
    same(stream.compute(), discrimination(p, target))


def test_a_stream_orders_answers_of_a_very_sure_classifier():
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(5, (3000,), generator=generator)
    logits = 25 * (torch.randn(3000, 5, generator=generator) + torch.eye(5)[target])
    p = logits.softmax(1)
    assert (p < 1e-12).float().mean() > 0.4
    stream = OrbitDiscrimination(5)
    stream.update(p, target)
    same(stream.compute(), discrimination(p, target))


def test_a_stream_of_several_labels_and_one_with_a_threshold():
    p, target = labels(900, 6)
    stream = OrbitDiscrimination(6, multi_label=True, threshold=0.3)
    stream.update(p[:500], target[:500])
    stream.update(p[500:], target[500:])
    same(stream.compute(), discrimination(p, target, multi_label=True, threshold=0.3))


def same(stream: Discrimination, exact: Discrimination) -> None:
    assert stream.auc == pytest.approx(exact.auc, abs=1e-3)
    assert dataclasses.replace(stream, auc=exact.auc) == exact


def test_a_stream_takes_certain_answers_and_its_memory_does_not_grow():
    stream = OrbitDiscrimination(3)
    before = stream._all.numel() + stream._positive.numel()
    for _ in range(5):
        stream.update(torch.eye(3), torch.arange(3))
    assert stream.compute() == Discrimination(1.0, 1.0, 1.0, 1.0, None)
    assert stream._all.numel() + stream._positive.numel() == before


def test_what_does_not_match_is_refused_with_a_sentence():
    p, target = answers(9, 3)
    with pytest.raises(ValueError, match="class indices from 0 to 7 do not match a classifier of 3 classes"):
        discrimination(p, target.clamp(max=1) * 7)
    with pytest.raises(ValueError, match="of at least one answer"):
        discrimination(p[:0], target[:0])
    with pytest.raises(ValueError, match="targets"):
        discrimination(p, target, multi_label=True)
    with pytest.raises(ValueError, match="of 3 classes the most probable one is the answer"):
        discrimination(p, target, threshold=0.5)
    with pytest.raises(ValueError, match="a probability from 0 to 1"):
        OrbitDiscrimination(2, threshold=1.5)
    with pytest.raises(ValueError, match="9 of 9 answers have NaN"):
        discrimination(p * torch.nan, target)
    with pytest.raises(ValueError, match=r"probabilities \(B, 4\) are expected"):
        OrbitDiscrimination(4).update(p, target)
    with pytest.raises(ValueError, match="call update first"):
        OrbitDiscrimination(4).compute()
