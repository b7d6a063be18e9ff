"""Images whose angle is in doubt are read again at each quarter turn, by ``views="auto"`` and by nothing else."""

import math
from dataclasses import replace

import pytest
import torch

from tokenstn.geometry import Pose, Rotation, invert, warp
from tokenstn.models import AutoViews, TokenSTN
from tokenstn.models.reading_again import can_be_turned
from tokenstn.posteriors import Circular
from tokenstn.posteriors.circular import bin_angles

from ..evaluation.toys import SIDE, HonestSTN, frame
from .classifiers import shake, small_vit


def at(degrees: list[float]) -> torch.Tensor:
    """Images of one bright spot, which lies to the right at 0°."""
    x, y = frame()
    spot = torch.exp(-(((x - 0.6) ** 2 + y**2) / 0.02)).expand(len(degrees), 3, SIDE, SIDE) * 4 - 2
    return warp(spot.clone(), invert(Pose.of(rotation=torch.tensor(degrees).deg2rad()).matrix))


class Dizzy(HonestSTN):
    """Reads what lies in the upper half half a turn off, and is not sure of it; what lies in the lower half well."""

    def __init__(self, **settings) -> None:
        super().__init__(**settings)
        self.read: list[int] = []

    def localize(self, images):
        self.read.append(len(images))
        angle = self.angle(images)
        upper = (angle < -0.1) | (angle > math.pi - 0.1)
        angle, sharpness = torch.where(upper, angle + math.pi, angle), torch.where(upper, 0.5, 20.0)
        return {"rotation": Circular(Rotation(), sharpness[:, None] * torch.cos(bin_angles().float() - angle[:, None]))}


ANGLES = [-150.0, -90.0, -30.0, 40.0, 120.0]


def apart(pose: torch.Tensor) -> torch.Tensor:
    return ((pose.rad2deg() - torch.tensor(ANGLES) + 180) % 360 - 180).abs()


@torch.no_grad()
def test_an_angle_in_doubt_is_settled_by_the_readings_of_the_turned_image():
    model, images = Dizzy(), at(ANGLES)
    assert (apart(model(images, views=1).pose.rotation)[:3] > 150).all(), "one reading is wrong about these"
    assert (apart(model(images, views="auto").pose.rotation) < 6).all()
    torch.testing.assert_close(model.believe(images)["rotation"].best(), model(images, views="auto").pose.rotation)


@torch.no_grad()
def test_only_images_in_doubt_are_read_again_and_only_by_auto():
    model, images = Dizzy(), at(ANGLES)
    sure = model(images[3:], views=1)
    for call, wanted in (
        (lambda: model(images, views="auto"), [5, 9]),  # three of them at three turns
        (lambda: model(images[3:], views="auto"), [2]),
        (lambda: model(images, views=1), [5]),
        (lambda: model(images, views=4), [5]),
        (lambda: model(images, views=2, sampling="random"), [5]),
        (lambda: model.localize(images), [5]),
        (lambda: model.believe(images, views=1), [5]),
    ):
        model.read.clear()
        call()
        assert model.read == wanted
    assert torch.equal(model(images, views="auto").pose.rotation[3:], sure.pose.rotation), "the others stay as they are"
    model.auto = replace(model.auto, doubt=None)
    model.read.clear()
    model(images, views="auto")
    assert model.read == [5]


@torch.no_grad()
def test_in_training_mode_an_image_is_read_once():
    model = Dizzy().train()
    model(at(ANGLES), views="auto")
    assert model.read == [5]


@pytest.mark.parametrize(
    ("settings", "again"),
    [
        ({"primitives": ("rotation", "scale", "shear")}, True),
        ({"primitives": ("rotation", "translation")}, False),  # a shift turns along
        ({"primitives": ("rotation", "reflection")}, False),
        ({"primitives": ("scale",)}, False),
        ({"primitives": (Rotation(bound=1.0),)}, False),  # a quarter turn would leave the bound
        ({"primitives": ("rotation",), "posterior": "gaussian"}, False),
    ],
)
@torch.no_grad()
def test_only_what_turns_with_the_image_in_a_known_way_is_averaged(settings, again):
    torch.manual_seed(0)
    model = TokenSTN(small_vit(), auto=AutoViews(doubt=0.0), localization_size=32, **settings).eval()
    assert model.localizer is not None
    shake(model.localizer, 1.0)
    images = torch.randn(3, 3, 32, 32)
    once, more = model.localize(images), model.believe(images)
    assert all((more[name].raw == once[name].raw).all() for name in once) != again
    assert can_be_turned(once, images) == again and not can_be_turned(once, images[..., :16]), "squares alone"


@torch.no_grad()
def test_with_four_readings_a_quarter_turn_of_the_image_is_one_of_the_pose():
    torch.manual_seed(0)
    model = TokenSTN(small_vit(), auto=AutoViews(doubt=0.0), localization_size=32).eval()
    assert model.localizer is not None
    shake(model.localizer, 1.0)
    images = torch.randn(4, 3, 32, 32)
    before, after = model.believe(images), model.believe(images.rot90(1, (-2, -1)))
    torch.testing.assert_close(after["rotation"].raw.roll(9, -1), before["rotation"].raw, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(after["scale"].raw, before["scale"].raw, atol=1e-4, rtol=1e-4)
    once = [model.localize(each)["rotation"].raw for each in (images, images.rot90(1, (-2, -1)))]
    assert not torch.allclose(once[1].roll(9, -1), once[0], atol=0.1), "which one reading does not know"


@torch.no_grad()
def test_images_in_doubt_are_read_from_closer_by():
    torch.manual_seed(0)
    model = TokenSTN(small_vit(), localization_size=16, closer_size=32, auto=AutoViews(doubt=0.0)).eval()
    assert model.localizer is not None and model.backbone.prefix is not None
    shake(model.localizer, 1.0)
    seen: list[tuple[int, ...]] = []
    read = model.backbone.prefix
    model.backbone.prefix = lambda images: (seen.append(tuple(images.shape)), read(images))[1]
    images = torch.randn(4, 3, 32, 32)
    believed = model.believe(images)
    assert seen == [(4, 3, 16, 16), (16, 3, 32, 32)]
    seen.clear()
    closer = [model.localize(images.rot90(turn, (-2, -1)), closer=True) for turn in range(4)]
    assert seen == [(4, 3, 32, 32)] * 4
    readings = [belief["scale"].raw for belief in closer]
    torch.testing.assert_close(believed["scale"].raw, torch.stack(readings).mean(0), atol=1e-4, rtol=1e-4)
    seen.clear()
    model.auto = AutoViews(doubt=1.0)
    model.believe(images), model(images, views=1)
    assert seen == [(4, 3, 16, 16)] * 2, "and no others"


@torch.no_grad()
def test_a_rectifier_brings_along_what_it_reads_from_closer_by():
    donor = TokenSTN(small_vit(), localization_size=16, closer_size=32)
    model = TokenSTN(small_vit(), rectifier=donor)
    assert model.closer_size == 32
    with pytest.raises(ValueError, match="and closer_size: leave them out"):
        TokenSTN(small_vit(), rectifier=donor, closer_size=24)


@pytest.mark.parametrize(("first", "closer"), [(1.0, 0.5), (None, 0.25), (32, 16), (0.5, 1), (24, 0.5)])
def test_what_is_in_doubt_is_not_read_from_further_away(first, closer):
    with pytest.raises(ValueError, match="would be read from further away than at first"):
        TokenSTN(small_vit(), localization_size=first, closer_size=closer)


@pytest.mark.parametrize("closer", [1.5, 0, "half", (3,)])
def test_a_size_is_a_size(closer):
    with pytest.raises(ValueError, match=r"closer_size=.*a share of the image"):
        TokenSTN(small_vit(), closer_size=closer)


@pytest.mark.parametrize("doubt", [-0.1, 1.1, "often", math.nan])
def test_doubt_is_a_share(doubt):
    with pytest.raises(ValueError, match="doubt from 0 to 1"):
        AutoViews(doubt=doubt)
