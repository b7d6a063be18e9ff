"""Values that are worked out at the first look go wherever a dict of tensors goes."""

import copy
import pickle

import pytest
import torch
from torch.utils import _pytree as pytree

from tokenstn import TokenSTN
from tokenstn.models.on_demand import OnDemand
from tokenstn.models.prediction import Prediction

from .classifiers import ALL, small_vit


def made() -> OnDemand:
    return OnDemand({"one": lambda: torch.ones(2), "two": lambda: torch.full((2,), 2.0)})


@pytest.fixture(scope="module")
def prediction() -> Prediction:
    with torch.no_grad():
        return TokenSTN(small_vit(), primitives=ALL).eval()(torch.randn(2, 3, 32, 32), views=1)


def test_a_value_is_made_once_and_only_when_it_is_looked_at():
    asked = []
    found = OnDemand({"one": lambda: asked.append("one") or torch.ones(1), "two": lambda: asked.append("two")})
    assert asked == [] and found["one"] is found["one"]
    assert asked == ["one"]


def test_a_collection_rebuilt_from_its_values_can_be_looked_at():
    # what torch's collating and Lightning's moving of batches do with a mapping
    found = made()
    again = type(found)({name: value + 1 for name, value in found.items()})
    assert again["one"].tolist() == [2.0, 2.0]
    assert torch.utils.data.default_convert(found)["two"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy])
def test_a_copy_has_the_same_values(again):
    assert again(made())["two"].tolist() == [2.0, 2.0]


def test_a_prediction_is_a_tree_of_tensors(prediction):
    leaves = pytree.tree_leaves(prediction)
    assert all(isinstance(leaf, torch.Tensor) for leaf in leaves)
    wide = pytree.tree_map(lambda value: value.double(), prediction)
    for name in ("entropy", "spread"):
        given, found = getattr(prediction, name), getattr(wide, name)
        assert list(found) == list(given)
        assert all(torch.equal(found[key], given[key].double()) for key in given)
    assert wide.probabilities.dtype == wide.pose.rotation.dtype == torch.float64
    difference = pytree.tree_map(lambda one, other: (one - other).abs().max(), prediction, wide)
    assert all(value == 0 for value in pytree.tree_leaves(difference))


def test_the_tree_names_its_leaves(prediction):
    leaves, _ = pytree.tree_flatten_with_path(prediction)
    assert ".spread['rotation']" in {pytree.keystr(path) for path, _ in leaves}


def test_a_pickled_prediction_keeps_its_values(prediction):
    again = pickle.loads(pickle.dumps(prediction))
    assert torch.equal(again.entropy["rotation"], prediction.entropy["rotation"])
