"""The localizer is light, knows where its tokens are, and starts at the identity."""

import pytest
import timm
import torch
from torch.nn import functional as F

from tokenstn import TokenSTN
from tokenstn.models.localizer import Localizer, coarser, grid_means, token_positions

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


def localizer(width: int = 12, **settings) -> Localizer:
    torch.manual_seed(0)
    return shake(Localizer(width, {"scale": torch.tensor([0.25, -1.0])}, **settings)).eval()


def test_a_fresh_localizer_puts_out_its_initial_numbers_whatever_it_sees():
    fresh = Localizer(12, {"scale": torch.tensor([0.25, -1.0])})
    assert torch.equal(fresh(torch.randn(3, 12, 7, 7))["scale"], torch.tensor([[0.25, -1.0]] * 3))


@torch.no_grad()
def test_moving_the_tokens_changes_the_answer():
    tokens = torch.randn(1, 12, 7, 7)
    model = localizer()
    assert not torch.allclose(model(tokens)["scale"], model(tokens.rot90(1, (2, 3)))["scale"], atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("grid", [14, 5])
def test_many_tokens_are_averaged_to_a_coarser_grid(grid):
    small = torch.randn(1, 12, grid, grid)
    large = small.repeat_interleave(4, 2).repeat_interleave(4, 3)
    model = localizer(grid=grid)
    torch.testing.assert_close(model(large)["scale"], model(small)["scale"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("given", [(7, 7), (9, 14), (30, 11), (3, 4)])
def test_a_coarse_token_is_the_mean_over_its_area_and_the_aspect_is_kept(given):
    wanted = coarser(given, 5)
    assert min(wanted) == min(*given, 5)
    assert wanted[0] / wanted[1] == pytest.approx(given[0] / given[1], rel=0.1)
    tokens = torch.randn(1, 3, *given)
    fine = tokens.repeat_interleave(wanted[0], 2).repeat_interleave(wanted[1], 3)  # whole numbers of these in a cell
    expected = F.avg_pool2d(fine, given)
    found = grid_means(given, wanted) @ tokens.flatten(2).transpose(1, 2)
    torch.testing.assert_close(found.transpose(1, 2).unflatten(2, wanted), expected, atol=1e-5, rtol=1e-5)


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
