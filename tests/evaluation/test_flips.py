"""Flips against a brute-force count."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenstn.evaluation.flips import flips
from tokenstn.evaluation.results import ClassFlips


def brute_force(bare, now, class_of, classes: int) -> list[ClassFlips]:
    counts = [[0, 0, 0, 0] for _ in range(classes)]
    for before, after, k in zip(bare.flatten().tolist(), now.flatten().tolist(), class_of, strict=True):
        counts[k][3 if before else 1] += 1
        if before != after:
            counts[k][2 if before else 0] += 1
    return [ClassFlips(*row) for row in counts]


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 8), st.integers(1, 4), st.integers(0, 999))
def test_flips_are_those_of_a_brute_force_count(elements, images, classes, seed):
    generator = torch.Generator().manual_seed(seed)
    bare, now = torch.rand(2, elements, images, generator=generator) < 0.5
    labels = torch.randint(classes, (images,), generator=generator)
    found = flips(bare, now, labels, classes)
    assert list(found.by_class) == brute_force(bare, now, labels.tolist() * elements, classes)
    assert found.overall == brute_force(bare, now, [0] * bare.numel(), 1)[0]
    mixed = torch.randperm(images, generator=generator)
    assert flips(bare[:, mixed], now[:, mixed], labels[mixed], classes) == found


def test_several_labels_are_counted_one_by_one():
    generator = torch.Generator().manual_seed(0)
    bare, now = torch.rand(2, 3, 5, 4, generator=generator) < 0.5
    found = flips(bare, now, None, classes=4)
    assert list(found.by_class) == brute_force(bare, now, list(range(4)) * 15, 4)
    assert found.overall.base_wrong + found.overall.base_right == 60


def test_a_class_without_images_has_counts_of_zero():
    right = torch.ones(2, 3).bool()
    assert flips(right, right, torch.zeros(3).long(), classes=2).by_class[1] == ClassFlips(0, 0, 0, 0)


def test_what_does_not_match_is_refused_with_a_sentence():
    right = torch.ones(2, 3).bool()
    with pytest.raises(ValueError, match="labels from 0 to 5 do not match a list of 4 classes"):
        flips(right, right, torch.tensor([0, 1, 5]), classes=4)
    with pytest.raises(ValueError, match="3 images need as many labels"):
        flips(right, right, torch.tensor([0, 1]), classes=4)
    with pytest.raises(ValueError, match="got none"):
        flips(right, right, None, classes=4)
    with pytest.raises(ValueError, match="the same answers"):
        flips(right, right[:1], torch.zeros(3), classes=4)
    with pytest.raises(ValueError, match="3 labels do not match a list of 2 labels"):
        flips(right[None], right[None], None, classes=2)
