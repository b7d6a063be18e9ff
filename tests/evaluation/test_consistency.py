"""Consistency over the orbit."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenstn.evaluation.consistency import consistency


@settings(deadline=None)
@given(st.integers(2, 6), st.integers(1, 12), st.integers(0, 999))
def test_shares_are_those_of_a_count(elements, images, seed):
    predicted = torch.randint(3, (elements, images), generator=torch.Generator().manual_seed(seed))
    found = consistency(predicted)
    table = predicted.tolist()
    by_image = [sum(row[i] == table[0][i] for row in table[1:]) / (elements - 1) for i in range(images)]
    assert found.overall == pytest.approx(sum(by_image) / images)
    assert found.by_image == pytest.approx(np.quantile(by_image, np.linspace(0, 1, 21)))
    assert found.by_element[0] == 1 and sum(found.by_element[1:]) / (elements - 1) == pytest.approx(found.overall)
    renamed = consistency(predicted.max() - predicted)  # names of classes do not matter, nor the order of images
    assert renamed == found and consistency(predicted.flip(1)).overall == pytest.approx(found.overall)


def test_a_group_of_one_element_agrees_with_itself():
    found = consistency(torch.tensor([[3, 1, 4]]))
    assert found.overall == 1 and found.by_element == (1.0,) and found.by_image == (1.0,) * 21


def test_with_several_labels_all_must_agree():
    predicted = torch.tensor([[[True, False], [True, True]], [[True, False], [True, False]]])
    assert consistency(predicted).by_element == (1.0, 0.5)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,)])
def test_nothing_to_compare_is_refused_with_a_sentence(shape):
    with pytest.raises(ValueError, match="at least one image under at least one element"):
        consistency(torch.zeros(shape))
