"""Entropy by class against a plain selection."""

from dataclasses import astuple

import pytest
import torch

from tokenstn.evaluation.entropy import entropy_by_class
from tokenstn.evaluation.results import EntropyGroup

GENERATOR = torch.Generator().manual_seed(0)
ENTROPY = torch.rand(8, 50, generator=GENERATOR)
BARE, NOW = torch.rand(2, 8, 50, generator=GENERATOR) < 0.6
LABELS = torch.randint(3, (50,), generator=GENERATOR)


def same(found: EntropyGroup, values: torch.Tensor) -> bool:
    spread = values.double().std(correction=0).item()
    return astuple(found) == pytest.approx((values.double().mean().item(), spread, len(values)))


def test_means_and_spreads_are_those_of_the_chosen_answers():
    found = entropy_by_class(ENTROPY, BARE, NOW, LABELS, classes=4)
    for k in range(3):
        of_class = LABELS.eq(k).expand(8, 50)
        assert same(found[k].fixed, ENTROPY[of_class & ~BARE & NOW])
        assert same(found[k].broken, ENTROPY[of_class & BARE & ~NOW])
        assert same(found[k].unchanged, ENTROPY[of_class & (BARE == NOW)])
    assert found[3].fixed == EntropyGroup(None, None, 0) and found[3].sample == ()


def test_a_sample_is_drawn_evenly_and_repeatably():
    first, again, other = (entropy_by_class(ENTROPY, BARE, NOW, LABELS, 3, sample=40, seed=seed) for seed in (1, 1, 2))
    assert first == again != other and all(len(c.sample) == 40 for c in first)
    everything = entropy_by_class(ENTROPY, BARE, NOW, LABELS, 3, sample=1000)
    for some, whole in zip(first, everything, strict=True):
        assert set(some.sample) <= set(whole.sample)
        for name in ("fixed", "broken", "unchanged"):
            assert sum(kind == name for _, kind in whole.sample) == getattr(whole, name).count


def test_with_several_labels_every_answer_counts_for_each():
    bare, now = torch.stack([BARE, NOW], 2), torch.stack([NOW, NOW], 2)
    first, second = entropy_by_class(ENTROPY, bare, now, None, classes=2)
    assert same(first.fixed, ENTROPY[~BARE & NOW]) and second.fixed.count == 0 and second.unchanged.count == 400


def test_entropies_of_other_answers_are_refused_with_a_sentence():
    with pytest.raises(ValueError, match=r"one entropy, \(E, N\) = \(8, 50\)"):
        entropy_by_class(ENTROPY[:3], BARE, NOW, LABELS, 3)
