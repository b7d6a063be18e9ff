"""What a frozen classifier has to do with checkpoints: it is not in them, and has to be there again."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tokenstn.training.frozen_state import FrozenState


def whole(seed: int = 0, frozen: bool = True) -> nn.ModuleDict:
    torch.manual_seed(seed)
    classifier = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).requires_grad_(not frozen)
    return nn.ModuleDict({"classifier": classifier, "shared": classifier[0], "heads": nn.Linear(4, 2)})


def checkpoint_of(module: nn.ModuleDict) -> dict:
    found = {"state_dict": module.state_dict()}
    FrozenState(module, module["classifier"]).leave_out(found)
    return found


def test_only_what_is_trained_is_written_and_all_of_it_comes_back():
    module = whole()
    written = checkpoint_of(module)
    assert set(written["state_dict"]) == {"heads.weight", "heads.bias"}
    other = whole()
    nn.init.zeros_(other["heads"].weight)
    FrozenState(other, other["classifier"]).put_back(written)
    other.load_state_dict(written["state_dict"])
    for name, values in module.state_dict().items():
        assert torch.equal(other.state_dict()[name], values), name


def test_a_classifier_that_is_trained_is_written():
    module = whole(frozen=False)
    assert set(checkpoint_of(module)["state_dict"]) == set(module.state_dict())


def test_one_weight_that_is_trained_is_enough():
    module = whole()
    module["classifier"][1].weight.requires_grad_()
    assert set(checkpoint_of(module)["state_dict"]) == set(module.state_dict())


def test_a_run_does_not_go_on_with_another_classifier():
    written, other = checkpoint_of(whole()), whole(seed=1)
    with pytest.raises(ValueError, match="not the one that the run began with"):
        FrozenState(other, other["classifier"]).put_back(written)


def test_what_was_written_as_a_whole_is_read_as_a_whole():
    written = {"state_dict": whole().state_dict()}
    other = whole(seed=1)
    FrozenState(other, other["classifier"]).put_back(written)
    assert set(written["state_dict"]) == set(whole().state_dict())
