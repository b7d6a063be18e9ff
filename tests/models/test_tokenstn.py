"""What a call does with the images, the views and the primitives it is given."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from tokenstn import TokenSTN
from tokenstn.geometry import OneSidedScale, Rotation, Scale, warp
from tokenstn.models import AutoViews
from tokenstn.models.looking import FEW, ROOM
from tokenstn.posteriors import POSTERIORS, Circular, Posterior
from tokenstn.posteriors.circular import bin_angles

from .classifiers import ALL, shake, small_vit


def make(**settings) -> TokenSTN:
    """A model whose localizer says something different for each image."""
    torch.manual_seed(0)
    model = TokenSTN(shake(small_vit()), **({"primitives": ALL, "localization_size": 32} | settings)).eval()
    if model.localizer is not None:
        shake(model.localizer, 1.0)
    return model


@pytest.fixture(scope="module")
def model() -> TokenSTN:
    return make()


@pytest.fixture(scope="module")
def images() -> Tensor:
    return (
        torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(3))
        * torch.logspace(-1, 1, 6)[:, None, None, None]
    )


@torch.no_grad()
def test_probabilities_are_the_weighted_average_over_the_views(model, images):
    p = model(images, views=5)
    assert p.views.matrices.shape == (6, 5, 3, 3)
    by_hand = torch.zeros(6, 5)
    for image in range(6):
        for view in range(5):
            one = warp(images[image : image + 1], p.views.matrices[image, view])
            by_hand[image] += p.views.weights[image, view] * model.classifier(one)[0].softmax(-1)
    torch.testing.assert_close(p.probabilities, by_hand, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(p.probabilities.sum(-1), torch.ones(6))
    torch.testing.assert_close(p.views.weights.sum(-1), torch.ones(6))


@pytest.mark.parametrize("views", [1, 4, "auto"])
@torch.no_grad()
def test_the_rectified_image_is_the_input_under_the_reported_pose(model, images, views):
    p = model(images, views=views)
    torch.testing.assert_close(p.rectified, warp(images, p.pose.matrix), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(p.views.matrices[:, 0], p.pose.matrix)


@torch.no_grad()
def test_fewer_views_are_among_more(model, images):
    few, many = model(images, views=3).views, model(images, views=9).views
    torch.testing.assert_close(few.matrices, many.matrices[:, :3])
    assert (many.weights[:, 1:].diff(dim=1) <= 1e-6).all(), "after the best pose they come by mass"


def rings(sharpness: Tensor) -> dict[str, Posterior]:
    """Beliefs about the angle, one for each number: the larger, the sharper."""
    return {"rotation": Circular(Rotation(), sharpness[:, None] * torch.cos(bin_angles() - 0.7).float())}


SHARPNESS = torch.tensor([0.1, 2.0, 300.0, 8.0, 30.0, 2.0])


@torch.no_grad()
def test_auto_takes_as_many_views_as_hold_the_mass_and_no_more(images):
    model = make(primitives=("rotation",), auto=AutoViews(mass=0.6, most=12, spread_deg=0, further="bilinear"))
    p = model.classify(images, rings(SHARPNESS), "auto")
    used = (p.views.weights > 0).sum(1)
    masses = rings(SHARPNESS)["rotation"].candidates(36).masses
    for row, count in enumerate(used.tolist()):
        assert masses[row, :count].sum() >= 0.6 or count == 12
        assert masses[row, : count - 1].sum() < 0.6
    assert used[0] == 12 and used[2] == 1 and used[2] < used[4] < used[3] < used[1]
    for row, count in enumerate(used.tolist()):
        alone = model.classify(images[row : row + 1], rings(SHARPNESS[row : row + 1]), count)
        torch.testing.assert_close(p.probabilities[row], alone.probabilities[0], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_auto_looks_on_both_sides_of_a_sharp_belief(images):
    spread = AutoViews(sure=None, spread_deg=10)
    sharp = rings(torch.full((6,), 300.0))
    narrow = make(primitives=("rotation",), auto=dataclasses.replace(spread, spread_deg=0)).classify(
        images, sharp, "auto"
    )
    model = make(primitives=("rotation",), auto=spread)
    wide = model.classify(images, sharp, "auto")
    assert ((narrow.views.weights > 0).sum(1) == 1).all()
    # a Gaussian of 10° on a grid of 10°: 40 % in the middle, 24 % on each side, 5 % on the next; four hold 90 %
    expected = torch.tensor([0.3990, 0.2420, 0.2420, 0.0540]) / 0.9370
    torch.testing.assert_close(wide.views.weights, expected.expand(6, -1), atol=6e-3, rtol=0)
    torch.testing.assert_close(wide.views.matrices[:, 0], wide.pose.matrix)
    assert torch.equal(wide.pose.rotation, narrow.pose.rotation), "what is said of the pose does not change"
    assert torch.equal(
        model.classify(images, sharp, 4).views.weights,
        make(primitives=("rotation",)).classify(images, sharp, 4).views.weights,
    ), "a number of views means the most probable ones"


@torch.no_grad()
def test_rows_that_need_fewer_views_do_not_pay_for_more(images):
    model = make(primitives=("rotation",))
    batches = []
    model.classifier.register_forward_pre_hook(lambda module, inputs: batches.append(len(inputs[0])))
    p = model.classify(images, rings(SHARPNESS), "auto")
    assert sum(batches) == int((p.views.weights > 0).sum()) < p.views.weights.numel()
    assert max(batches) <= ROOM * max(len(images), FEW), "packed into batches of about the one given"


@torch.no_grad()
def test_views_default_to_auto_and_to_one_in_training(model, images):
    auto = model(images, views="auto")
    assert torch.equal(model(images).views.weights, auto.views.weights)
    model.train()
    assert model(images).views.weights.shape == (6, 1)
    model.eval()


@torch.no_grad()
def test_random_views_repeat_with_the_generator_and_average_to_the_belief(model, images):
    def call(seed: int):
        return model(images, views=10, sampling="random", generator=torch.Generator().manual_seed(seed))

    assert torch.equal(call(1).probabilities, call(1).probabilities)
    assert not torch.equal(call(1).views.matrices, call(2).views.matrices)
    torch.testing.assert_close(call(1).views.weights, torch.full((6, 10), 0.1))
    torch.testing.assert_close(call(1).rectified, warp(images, call(1).pose.matrix), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("left_out", ALL)
@torch.no_grad()
def test_a_primitive_that_is_left_out_is_exactly_the_identity(images, left_out):
    model = make(primitives=[name for name in ALL if name != left_out])
    for sampling in ("probable", "random"):
        p = model(images, views=4, sampling=sampling)
        value = getattr(p.pose, left_out)
        identity = 1.0 if left_out in ("scale", "reflection") else 0.0
        assert torch.equal(value, torch.full_like(value, identity))
        assert left_out not in p.entropy
        assert torch.equal(p.pose.stretch, torch.ones(6))


@torch.no_grad()
def test_without_primitives_the_classifier_is_called_as_it_is(images):
    classifier = shake(small_vit()).eval()
    p = TokenSTN(classifier, primitives=()).eval()(images)
    assert torch.equal(p.probabilities, classifier(images).softmax(-1))
    assert torch.equal(p.rectified, images)
    assert torch.equal(p.pose.matrix, torch.eye(3).expand(6, 3, 3))
    assert p.entropy == {} and p.views.weights.tolist() == [[1.0]] * 6


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("views", [1, 4, "auto"])
@torch.no_grad()
def test_disagreement_is_the_information_that_the_view_carries_about_the_answer(images, views, multi_label):
    model = make(multi_label=multi_label)
    p = model(images, views)
    assert p.views is not None and p.disagreement is not None
    wanted = []
    for row, image in enumerate(images):
        entropies, used = [], p.views.weights[row] > 0
        for view, matrix in enumerate(p.views.matrices[row][used]):
            mode = model.auto.further if views == "auto" and view > 0 else "bilinear"
            logits = model.backbone.logits(warp(image[None], matrix[None], mode=mode))[0]
            kind = torch.distributions.Bernoulli if multi_label else torch.distributions.Categorical
            entropies.append(kind(logits=logits).entropy().sum())
        average = p.probabilities[row]
        together = torch.distributions.Bernoulli(average) if multi_label else torch.distributions.Categorical(average)
        wanted.append(together.entropy().sum() - (p.views.weights[row][used] * torch.stack(entropies)).sum())
    torch.testing.assert_close(p.disagreement, torch.stack(wanted).clamp_min(0), atol=1e-5, rtol=1e-4)
    assert bool((p.disagreement > 1e-6).any()) == (views != 1)


@pytest.mark.parametrize("posterior", POSTERIORS)
@torch.no_grad()
def test_every_posterior_gives_the_same_kind_of_answer(images, posterior):
    p = make(posterior=posterior)(images, views=4)
    assert set(p.entropy) == set(p.spread) == set(ALL)
    for name in ALL:
        assert p.entropy[name].shape == p.spread[name].shape == (6,)
        assert ((p.entropy[name] >= 0) & (p.entropy[name] <= 1)).all()
        assert (p.spread[name] >= 0).all()
    assert p.pose.rotation.shape == (6,) and p.pose.translation.shape == (6, 2)
    assert torch.isfinite(p.probabilities).all()


@torch.no_grad()
def test_poses_stay_inside_the_bounds_asked_for(images):
    bounds = {"primitives": (Rotation(bound=0.8), OneSidedScale(bound=0.6))}
    for posterior in ("circular", "gaussian", "student"):
        model = make(posterior=posterior, **bounds)
        shake(model.localizer, 20.0)
        poses = model(images, views=6, sampling="random", generator=torch.Generator().manual_seed(0)).views.matrices
        scales = torch.linalg.det(poses[..., :2, :2]).sqrt()
        angles = torch.atan2(poses[..., 1, 0], poses[..., 0, 0]).abs()
        assert angles.max() <= 0.8 + 1e-5
        assert scales.min() >= 0.6 - 1e-5 and scales.max() <= 1 + 1e-5


@torch.no_grad()
def test_multi_label_probabilities_are_averaged_sigmoids(images):
    model = make(multi_label=True, primitives=())
    torch.testing.assert_close(model(images).probabilities, model.classifier(images).sigmoid())


@pytest.mark.parametrize("posterior", ["circular", "gaussian", "student", "point"])
def test_the_classification_loss_reaches_every_head(images, posterior):
    model = make(posterior=posterior).train()
    sampling = "random" if posterior in ("gaussian", "student") else "probable"
    loss = -model(images, views=3, sampling=sampling).probabilities[:, 0].log().sum()
    loss.backward()
    for name, head in model.localizer.heads.items():
        assert head[-1].bias.grad.abs().sum() > 0, name


def test_a_frozen_classifier_stays_in_evaluation_mode_and_gets_no_gradient(images):
    model = make()
    model.classifier.requires_grad_(False)
    model.train()
    assert not model.classifier.training and model.localizer.training
    model(images).probabilities[:, 0].sum().backward()
    assert all(parameter.grad is None for parameter in model.classifier.parameters())
    model.classifier.requires_grad_(True)
    assert model.train().classifier.training


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_pixels_that_are_not_finite_are_refused_by_the_number_of_the_image(model, images, value):
    bad = images.clone()
    bad[4, 0, 3, 3] = value
    with pytest.raises(ValueError, match=r"images \[4\] of the batch have pixels that are not finite"):
        model(bad)


@pytest.mark.parametrize("views", [1, 3])
@torch.no_grad()
def test_where_values_are_not_looked_at_such_an_image_gets_no_answer(model, images, views):
    bad = images.clone()
    bad[4, 0, 3, 3] = math.nan
    p = model.classify(bad, model.localize(bad), views)  # as on a GPU or in a compiled graph
    assert p.probabilities[4].isnan().all() and p.probabilities[[0, 1, 2, 3, 5]].isfinite().all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m, x: m(x[:, :1]), "images have 1 channels, the classifier takes 3"),
        (lambda m, x: m(x[0]), r"images have shape \(B, C, H, W\), got \(3, 32, 32\)"),
        (lambda m, x: m((x * 255).to(torch.uint8)), "floating point and normalised, got torch.uint8"),
        (lambda m, x: m(x[:0]), "the batch is empty"),
        (lambda m, x: m(x, views=0), "views=0: a number from 1 up"),
        (lambda m, x: m(x, views="all"), "views='all'"),
        (lambda m, x: m(x, views=True), "views=True"),
        (lambda m, x: m(x, views=2, sampling="best"), "sampling='best': probable or random"),
        (lambda m, x: m(x, sampling="random"), "give a number to sample at random"),
        (lambda m, x: m.classify(x, m.localize(x), "auto", "random"), "give a number to sample at random"),
    ],
)
def test_a_bad_call_is_refused_with_a_sentence(model, images, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(model, images)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"primitives": ("rotation", "zoom")}, "unknown primitive 'zoom'; there are rotation, scale"),
        ({"primitives": ("scale", Scale(bound=0.5))}, "scale is named twice"),
        ({"posterior": "laplace"}, "unknown posterior 'laplace'; there are circular"),
        ({"posterior": "gausian", "primitives": ()}, "unknown posterior 'gausian'; there are circular"),
        ({"localization_tokens": 2.5}, "localization_tokens=2.5: a whole number, at least 1"),
        ({"localization_tokens": 0}, "localization_tokens=0: a whole number, at least 1"),
        ({"primitives": (Rotation(bound=0.2),)}, "narrower than two bins"),
    ],
)
def test_a_bad_setting_is_refused_with_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        TokenSTN(small_vit(), **settings)


@pytest.mark.parametrize("primitives", [(), ("rotation",)])
def test_names_for_other_classes_than_there_are_are_refused(primitives, images):
    model = TokenSTN(small_vit(), primitives, classes=["a", "b"]).eval()
    with pytest.raises(ValueError, match="the classifier has 5 outputs and 2 classes are named"):
        model(images)


def test_a_bound_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"Rotation\(bound=4\).*at most math.pi rad; leave rotation out"):
        Rotation(bound=4)


def test_a_timm_name_is_enough():
    assert TokenSTN("resnet18").backbone.token_width == 64
