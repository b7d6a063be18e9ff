"""Where random numbers come from, and what becomes of each: a sample is the quantile of its number."""

import math

import pytest
import torch

from tokenstn.geometry import OneSidedScale, Rotation, Scale, Shear, Translation
from tokenstn.posteriors import Circular, Gaussian, Student
from tokenstn.posteriors.base import largest, random_uniform

LIKE = torch.zeros(2)


def always(number):
    """A source that gives one number for ever."""
    return lambda shape: torch.full(shape, number, dtype=torch.float64)


def test_numbers_come_from_torch_unless_a_source_is_given():
    torch.manual_seed(5)
    first = random_uniform((3, 4), LIKE, None)
    torch.manual_seed(5)
    assert torch.equal(first, random_uniform((3, 4), LIKE, None)) and first.shape == (3, 4)
    drawn = random_uniform((3, 4), LIKE, torch.Generator().manual_seed(1))
    assert torch.equal(drawn, random_uniform((3, 4), LIKE, torch.Generator().manual_seed(1)))
    assert not torch.equal(drawn, first)


def test_a_function_is_asked_for_the_shape_and_its_numbers_are_taken():
    asked = []

    def source(shape):
        asked.append(shape)
        return torch.linspace(0.1, 0.9, 12, dtype=torch.float64).reshape(shape)

    found = random_uniform((3, 4), LIKE, source)
    assert asked == [(3, 4)] and found.dtype == torch.float32
    torch.testing.assert_close(found.flatten(), torch.linspace(0.1, 0.9, 12))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_stay_a_step_of_float32_away_from_both_ends(dtype):
    like = torch.zeros(1, dtype=dtype)
    assert random_uniform((1,), like, always(0.0)).item() == 2**-24
    assert random_uniform((1,), like, always(1.0)).item() == 1 - 2**-24
    assert random_uniform((1,), like, always(0.25)).item() == 0.25


def test_numbers_are_as_fine_as_what_they_are_for():
    fine = random_uniform((50,), torch.zeros(1, dtype=torch.float64), torch.Generator().manual_seed(0))
    assert fine.dtype == torch.float64 and not torch.equal(fine, fine.float().double())
    fine = random_uniform((50,), torch.zeros(1, dtype=torch.float64), None)
    assert not torch.equal(fine, fine.float().double())


@pytest.mark.parametrize("number", [0.05, 0.5, 0.8])
@pytest.mark.parametrize("family", [Gaussian, Student])
@pytest.mark.parametrize("primitive", [Rotation(), Scale(), OneSidedScale(), Shear()], ids=repr)
def test_a_sample_is_the_quantile_of_its_number(family, primitive, number):
    raw = torch.tensor([[0.2, 0.1], [-0.3, -0.6]], dtype=torch.float64)
    belief = family(primitive, raw)
    drawn = belief.sample(1, always(number))
    below = torch.stack([belief.cdf(value)[row, 0] for row, value in enumerate(drawn)])
    expected = number if primitive.rising else 1 - number
    torch.testing.assert_close(below, torch.full_like(below, expected))


def test_both_components_of_a_translation_have_numbers_of_their_own():
    belief = Gaussian(Translation(), torch.tensor([[0.1, -0.2, 0.0, 0.3]], dtype=torch.float64))
    numbers = torch.tensor([[[0.3, 0.9]]], dtype=torch.float64)
    drawn = belief.sample(1, lambda shape: numbers.expand(shape))
    below = belief.cdf(drawn[0, 0])[0]
    assert below[0, 0].item() == pytest.approx(0.3) and below[1, 1].item() == pytest.approx(0.9)


def test_three_numbers_make_an_angle_of_the_ring():
    """One chooses the bin, the sum of two others the place under its hat."""
    logits = torch.full((1, 36), -40.0, dtype=torch.float64)
    logits[0, 3] = 0.0  # 30°
    for first, second, degrees in ((0.5, 0.5, 30), (0.9, 0.5, 34), (0.1, 0.5, 26), (0.999, 0.999, 39.98)):
        numbers = torch.tensor([0.4, first, second], dtype=torch.float64)
        drawn = Circular(Rotation(), logits).sample(1, lambda shape, given=numbers: given.expand(shape))
        assert math.degrees(drawn.item()) == pytest.approx(degrees)


def test_the_largest_come_first_and_ties_go_to_the_earlier_place():
    masses = torch.tensor([[0.2, 0.3, 0.3, 0.1, 0.1], [0.0, 0.1, 0.5, 0.1, 0.3]])
    assert largest(masses, 3, first=torch.tensor([1, 2])).tolist() == [[1, 2, 0], [2, 4, 1]]
    assert largest(masses, 5, first=torch.tensor([3, 0])).tolist() == [[3, 1, 2, 0, 4], [0, 2, 4, 1, 3]]
