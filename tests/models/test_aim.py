"""Where to look: the most probable views, and the image as it is among them."""

import math

import pytest
import torch

from tokenstn import TokenSTN
from tokenstn.geometry import OneSidedScale, Reflection, Rotation, Scale, Shear, Translation
from tokenstn.models import AutoViews
from tokenstn.models.aim import aim
from tokenstn.posteriors import Circular, Gaussian, family_of
from tokenstn.posteriors.circular import bin_angles

BLUR = math.radians(20)


def ring(angle_deg: float, sharpness: float = 60.0) -> dict:
    """A belief about one image, the sharper the larger."""
    return {"rotation": Circular(Rotation(), sharpness * torch.cos(bin_angles() - math.radians(angle_deg))[None])}


@pytest.mark.parametrize(
    "primitive", [Rotation(), Rotation(1.0), Scale(), OneSidedScale(), Shear(), Translation(), Reflection()], ids=repr
)
def test_a_fresh_network_believes_in_the_identity_more_than_by_chance(primitive):
    for kind in ("gaussian", "circular"):
        family = family_of(kind, primitive)
        assert family(primitive, family.initial(primitive)[None]).identity_ratio() > 1.05


@pytest.mark.parametrize("primitive", [Rotation(), Scale(), Shear()], ids=repr)
def test_the_ratio_is_the_density_at_the_identity_beside_that_of_chance(primitive):
    raw = torch.tensor([[0.04, 0.2]], dtype=torch.float64)
    belief = Gaussian(primitive, raw)
    low, high = primitive.range
    # of the uniform density, which for a scale is uniform in its logarithm: one over the range there
    chance = 1 / math.log(high / low) if isinstance(primitive, Scale) else 1 / (high - low)
    expected = belief.log_prob(torch.tensor([primitive.identity], dtype=torch.float64)).exp() / chance
    torch.testing.assert_close(belief.identity_ratio(), expected, rtol=0.03, atol=0)


@pytest.mark.parametrize("angle_deg", [2.0, 4.0, 8.0])
def test_the_image_as_it_is_gets_its_share_by_bayes_rule(angle_deg):
    belief = ring(angle_deg)
    ratio = belief["rotation"].identity_ratio()
    share = (0.1 * ratio / (0.1 * ratio + 0.9)).item()
    _, plain = aim(belief, 5, BLUR)
    pose, views = aim(belief, 6, BLUR, unmoved=0.1)
    itself = (views.matrices[0] == torch.eye(3)).all((-2, -1))
    assert itself.sum() == 1 and views.weights[0, itself].item() == pytest.approx(share, rel=1e-5)
    torch.testing.assert_close(views.weights[0, ~itself], (1 - share) * plain.weights[0])
    torch.testing.assert_close(views.matrices[:, 0], pose.matrix)  # the best view comes first, whatever its mass


@pytest.mark.parametrize("angle_deg", [45.0, 95.0, 172.0])
def test_an_image_that_is_believed_to_be_turned_is_not_looked_at_as_it_is(angle_deg):
    _, views = aim(ring(angle_deg), 5, BLUR, unmoved=0.1)
    itself = (views.matrices[0] == torch.eye(3)).all((-2, -1))
    assert views.weights[0, itself].sum() < 1e-3


def test_where_nothing_is_believed_the_image_counts_as_often_as_images_come_unmoved():
    _, views = aim({"rotation": Circular(Rotation(), torch.zeros(1, 36))}, 36, unmoved=0.1)
    itself = (views.matrices[0] == torch.eye(3)).all((-2, -1))
    assert views.weights[0, itself].max().item() == pytest.approx(0.1)


def test_the_share_counts_all_primitives():
    upright, small = ring(0.0), Gaussian(Scale(), torch.tensor([[-1.5, -2.0]]))
    _, views = aim({**upright, "scale": small}, 5, BLUR, unmoved=0.5)
    assert not (views.weights[0, (views.matrices[0] == torch.eye(3)).all((-2, -1))] > 1e-3).any()


def test_a_belief_of_one_view_is_trusted_with_that():
    turned, scaled = (Gaussian(kind, torch.tensor([[0.0, -1.0]])) for kind in (Rotation(), Scale()))
    for some in ({"rotation": turned, "scale": scaled}, {"scale": scaled}):
        _, views = aim(some, 5, BLUR, unmoved=0.5)
        assert views.weights.shape == (1, 1)


@torch.no_grad()
def test_the_image_itself_is_no_view_where_poses_are_relative():
    images = torch.randn(1, 3, 16, 16)
    classifier = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 5), torch.nn.Flatten(), torch.nn.Linear(4 * 144, 3))
    for poses in ("absolute", "relative"):
        model = TokenSTN(classifier, ("rotation",), shared="0", input_size=(16, 16), poses=poses).eval()
        views = model.classify(images, ring(3.0), "auto").views
        assert views is not None
        assert (views.matrices[0] == torch.eye(3)).all((-2, -1)).any() == (poses == "absolute")


@torch.no_grad()
def test_the_answer_on_the_image_itself_is_one_of_those_that_are_averaged():
    torch.manual_seed(0)
    classifier = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 5), torch.nn.Flatten(), torch.nn.Linear(4 * 144, 3))
    model = TokenSTN(
        classifier, ("rotation",), shared="0", input_size=(16, 16), auto=AutoViews(sure=None, mass=1.0)
    ).eval()
    images = torch.randn(1, 3, 16, 16)
    p = model.classify(images, ring(3.0), "auto")
    assert p.views is not None
    asked = torch.stack([model.classify(images, {}).probabilities[0]])
    itself = (p.views.matrices[0] == torch.eye(3)).all((-2, -1))
    without = TokenSTN(
        classifier,
        ("rotation",),
        shared="0",
        input_size=(16, 16),
        auto=AutoViews(sure=None, mass=1.0, unmoved=0, most=4),
    ).eval()
    share, others = p.views.weights[0, itself], without.classify(images, ring(3.0), "auto")
    assert share > 0.3
    torch.testing.assert_close(
        p.probabilities, share * asked + (1 - share) * others.probabilities, atol=2e-3, rtol=0
    )  # but for the fifth of the other views, which hardly counts


def test_a_share_that_is_none_is_refused():
    for unmoved in (-0.1, 1.0, "half"):
        with pytest.raises(ValueError, match="unmoved"):
            AutoViews(unmoved=unmoved)
