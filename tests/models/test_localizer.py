"""The localizer is light, knows where its tokens are, and starts at the identity."""

import pytest
import timm
import torch

from tokenstn import TokenSTN
from tokenstn.models.localizer import Localizer, token_positions

from .classifiers import ALL, shake


@pytest.mark.parametrize("name", ["vit_base_patch16_224", "swin_base_patch4_window7_224"])
def test_five_heads_stay_under_a_million_parameters(name, capsys):
    classifier = timm.create_model(name)
    model = TokenSTN(classifier, primitives=ALL)
    own = sum(parameter.numel() for parameter in model.localizer.parameters())
    shared = sum(parameter.numel() for parameter in classifier.parameters())
    with capsys.disabled():
        print(f"\n  localizer on {name}: {own:,} parameters, {own / shared:.2%} of the backbone's {shared:,}")
    assert own < 1_000_000


def localizer(width: int = 12) -> Localizer:
    torch.manual_seed(0)
    return shake(Localizer(width, {"scale": torch.tensor([0.25, -1.0])})).eval()


def test_a_fresh_localizer_puts_out_its_initial_numbers_whatever_it_sees():
    fresh = Localizer(12, {"scale": torch.tensor([0.25, -1.0])})
    assert torch.equal(fresh(torch.randn(3, 12, 7, 7))["scale"], torch.tensor([[0.25, -1.0]] * 3))


@torch.no_grad()
def test_moving_the_tokens_changes_the_answer():
    tokens = torch.randn(1, 12, 7, 7)
    model = localizer()
    assert not torch.allclose(model(tokens)["scale"], model(tokens.rot90(1, (2, 3)))["scale"], atol=1e-4)


@torch.no_grad()
def test_many_tokens_are_pooled_to_a_grid_of_fourteen():
    small = torch.randn(1, 12, 14, 14)
    large = small.repeat_interleave(4, 2).repeat_interleave(4, 3)
    model = localizer()
    torch.testing.assert_close(model(large)["scale"], model(small)["scale"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(14, 14), (7, 7), (9, 14), (1, 3)])
def test_every_place_has_a_position_of_its_own(height, width):
    positions = token_positions(height, width, 192)
    assert positions.shape == (height * width, 192)
    distances = torch.cdist(positions, positions) + 10 * torch.eye(height * width)
    assert distances.min() > 0.1


def test_positions_mean_the_same_place_at_every_resolution():
    coarse, fine = token_positions(7, 7, 192), token_positions(21, 21, 192)
    middles = torch.arange(21).reshape(7, 3)[:, 1]  # of three fine tokens the middle one sits where the coarse one does
    index = (middles[:, None] * 21 + middles[None, :]).flatten()
    torch.testing.assert_close(fine[index], coarse, atol=1e-5, rtol=0)
