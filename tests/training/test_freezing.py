"""The first half is frozen, counted, and stays as it is."""

import pytest
import torch
from torch import nn

from tokenstn import TokenSTN
from tokenstn.training import freeze_all, freeze_first_half, frozen_report, keep_frozen_parts_in_eval
from tokenstn.training.freezing import shared_parameters

from ..models.classifiers import PlainCNN, small_vit


def stack(*sizes: int) -> nn.Module:
    """A module with tensors of these sizes, in this order."""
    module = nn.Module()
    for place, size in enumerate(sizes):
        module.register_parameter(f"p{place}", nn.Parameter(torch.zeros(size)))
    return module


@pytest.mark.parametrize(
    ("sizes", "frozen"),
    [
        ((5, 5, 10), 2),  # exactly half
        ((5, 4, 2, 9), 2),  # 9 of 20 is nearer than 11? equally near: the earlier cut
        ((2, 10, 8), 2),  # 12 of 20 misses half by 2, 2 by 8
        ((2, 17, 1), 1),  # 19 of 20 misses half by 9, 2 by 8
        ((19, 1), 1),
        ((7,), 0),  # never everything
        ((), 0),
    ],
)
def test_the_cut_is_nearest_to_half(sizes, frozen):
    module = stack(*sizes)
    report = freeze_first_half(module)
    assert [p.requires_grad for p in module.parameters()] == [False] * frozen + [True] * (len(sizes) - frozen)
    assert (report.frozen_tensors, report.tensors) == (frozen, len(sizes))
    assert (report.frozen_parameters, report.parameters) == (sum(sizes[:frozen]), sum(sizes))


def test_a_vit_is_frozen_to_about_half_from_its_first_layers_on():
    vit = small_vit(depth=12)
    report = freeze_first_half(vit)
    assert 0.47 < report.share < 0.53
    assert not vit.patch_embed.proj.weight.requires_grad and vit.head.weight.requires_grad
    assert report.first_trainable.startswith("blocks.") and report.first_trainable in str(report)


def test_what_was_frozen_before_stays_frozen():
    module = stack(4, 4, 4, 4)
    module.p3.requires_grad_(False)
    report = freeze_first_half(module)
    assert report.frozen_tensors == 3 and report.first_trainable == "p2"


def test_where_all_was_frozen_before_the_second_half_is_freed():
    module = stack(4, 4, 4, 4)
    freeze_all(module)
    report = freeze_first_half(module)
    assert report.frozen_tensors == 2 and report.first_trainable == "p2"


@pytest.mark.parametrize("shared", [2, 9])
def test_the_layers_that_the_localizer_reads_are_frozen_however_many(shared):
    vit = small_vit(depth=12)
    freeze_all(vit)
    backbone = TokenSTN(vit, shared=shared).backbone
    read = shared_parameters(backbone)
    assert not any(parameter.requires_grad for parameter in vit.parameters()), "looking changes nothing"
    blocks = {id(parameter) for block in vit.blocks[:shared] for parameter in block.parameters()}
    assert blocks < {id(parameter) for parameter in read}
    freeze_first_half(vit, read)
    trained = [number for number, block in enumerate(vit.blocks) if next(block.parameters()).requires_grad]
    assert trained == list(range(max(shared, 6), 12)) and vit.head.weight.requires_grad


def test_a_layer_that_is_named_is_found_with_all_before_it():
    network = PlainCNN(channels=1, classes=2)
    backbone = TokenSTN(network, shared="body", input_size=(28, 28)).backbone
    before = {id(one) for part in (network.stem, network.body) for one in part.parameters()}
    assert {id(one) for one in shared_parameters(backbone)} == before
    assert shared_parameters(TokenSTN(network, primitives=(), input_size=(28, 28)).backbone) == []


def test_what_has_no_gradient_is_left_alone():
    network = PlainCNN(channels=1, classes=2)
    network.stem = nn.Sequential(nn.AvgPool2d(2))
    network.body = nn.Identity()
    freeze_all(network)
    backbone = TokenSTN(network, shared="stem", input_size=(28, 28)).backbone
    assert shared_parameters(backbone) == [], "layers without parameters"
    network.codes = nn.Parameter(torch.zeros(3, dtype=torch.int8), requires_grad=False)
    freeze_first_half(network)
    assert not network.codes.requires_grad and network.head.bias.requires_grad


def test_freeze_all_leaves_nothing():
    vit = small_vit()
    report = freeze_all(vit)
    assert report.share == 1 and report.first_trainable is None and "none is trained" in str(report)
    assert frozen_report(vit) == report


class Block(nn.Module):
    """Parts with and without parameters of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4, affine=False), nn.Dropout(0.5))
        self.second = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.second(self.first(x)))


def test_frozen_parts_go_to_eval_and_others_train():
    block = Block()
    block.first.requires_grad_(False)
    block.second[1].requires_grad_(False)  # a BatchNorm alone, in a part that trains
    keep_frozen_parts_in_eval(block.train())
    assert not any(part.training for part in block.first.modules())
    assert not block.second[1].training
    assert block.training and block.second[0].training and block.second[2].training and block.drop.training


def test_frozen_statistics_do_not_move():
    block = Block()
    block.first.requires_grad_(False)
    before = {name: buffer.clone() for name, buffer in block.named_buffers()}
    keep_frozen_parts_in_eval(block.train())
    block(torch.randn(8, 4) + 3)
    moved = {name for name, buffer in block.named_buffers() if not torch.equal(buffer, before[name])}
    assert moved == {"second.1.running_mean", "second.1.running_var", "second.1.num_batches_tracked"}
