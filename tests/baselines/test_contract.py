"""Every method takes TokenSTN's call and gives TokenSTN's result."""

import copy

import pytest
import torch
from torch import nn

from tokenstn.baselines import METHODS, create
from tokenstn.geometry import Pose, warp
from tokenstn.models import Prediction, Preprocessing

from ..models.classifiers import PlainCNN, small_vit
from .makers import RIVALS, TRAINED, make, make_rival, noise_images

# a fresh one has no pose of its own yet; its usual views are not the image as it is
START = {
    "tokenstn": "looks at several poses until it is trained",
    "tokenstn-pixels": "looks at several poses until it is trained",
    "tokenstn-gauss": "the paper's scale reaches the identity only in the limit",
    "tokenstn-gamma": "the paper's scale reaches the identity only in the limit",
    "tokenstn-point": "the paper's scale reaches the identity only in the limit",
    "tta": "looks at four random poses",
    "its": "searches from the start",
    "pstn-gamma": "draws ten poses around the identity",
    "pstn-gauss": "draws ten poses around the identity",
    "canprior-s": "an equivariant network cannot give all images one angle",
}


@pytest.mark.parametrize("name", METHODS)
@torch.no_grad()
def test_all_methods_share_the_call_and_the_result(name):
    model, images = make(name), noise_images()
    for call in ({}, {"views": 1}, {"views": 3}, {"views": "auto"}, {"views": 2, "sampling": "random"}):
        p = model(images, **call)
        assert isinstance(p, Prediction)
        assert p.probabilities.shape == (4, 5) and p.probabilities.dtype == torch.float32
        torch.testing.assert_close(p.probabilities.sum(-1), torch.ones(4))
        assert p.views is not None and p.views.matrices.dtype == torch.float32
        assert p.views.matrices.shape == (*p.views.weights.shape, 3, 3)
        torch.testing.assert_close(p.views.weights.sum(-1), torch.ones(4))
        assert p.disagreement is not None and p.disagreement.shape == (4,)
        if model.primitives:
            assert p.pose is not None and p.pose.rotation.shape == (4,)
            torch.testing.assert_close(p.rectified, warp(images, p.pose.matrix), atol=1e-4, rtol=1e-4)
        else:
            assert p.pose is None and p.rectified is None
        if p.entropy is not None:
            assert p.entropy.keys() == {primitive.name for primitive in model.primitives}
            assert all(((entropy >= 0) & (entropy <= 1)).all() for entropy in p.entropy.values())


@pytest.mark.parametrize("name", METHODS)
@torch.no_grad()
def test_the_answer_is_the_average_over_the_views_looked_at(name):
    model, images = make(name), noise_images(2)
    p = model(images, views=3)
    by_hand = torch.zeros(2, 5)
    for view, weight in zip(p.views.matrices.unbind(1), p.views.weights.unbind(1), strict=True):
        by_hand += weight[:, None] * model.classifier(warp(images, view)).softmax(-1)
    torch.testing.assert_close(p.probabilities, by_hand, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", METHODS)
@torch.no_grad()
def test_no_belief_is_the_bare_classifier(name):
    model, images = make(name), noise_images()
    torch.testing.assert_close(model.classify(images, {}).probabilities, model.classifier(images).softmax(-1))


@pytest.mark.parametrize("name", METHODS)
@torch.no_grad()
def test_a_fresh_model_answers_as_its_classifier_does(name):
    model, images = make(name), noise_images()
    bare = model.classify(images, {}).probabilities
    usual = model(images).probabilities
    assert torch.allclose(usual, bare, atol=1e-5) != (name in START), START.get(name)
    if name in ("tokenstn", "tta", "pstn-gamma", "pstn-gauss"):  # with several views only
        torch.testing.assert_close(model(images, views=1).probabilities, bare, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", METHODS)
@torch.no_grad()
def test_equal_generators_give_equal_answers(name):
    model, images = make(name), noise_images()

    def answer(seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return model(images, views=3, sampling="random", generator=generator).probabilities

    assert answer(0).equal(answer(0))
    if name in ("tta", "pstn-gamma", "pstn-gauss", "tokenstn", "tokenstn-gauss", "tokenstn-gamma"):
        assert not answer(0).equal(answer(1))
    torch.manual_seed(1)
    first = model(images).probabilities
    assert first.equal(model(images).probabilities)  # nothing random, or the same every time


@pytest.mark.parametrize("name", RIVALS)
def test_bad_calls_are_refused_as_tokenstn_refuses_them(name):
    model, images = make(name), noise_images()
    with pytest.raises(ValueError, match="views=0"):
        model(images, views=0)
    with pytest.raises(ValueError, match="probable or random"):
        model(images, sampling="likely")
    with pytest.raises(ValueError, match="channels"):
        model(images[:, :1])
    with pytest.raises(ValueError, match="not finite"):
        model(images / 0)
    with pytest.raises(ValueError, match="labels of shape"):
        model.losses(images, torch.zeros(3, dtype=torch.long))


@pytest.mark.parametrize("name", RIVALS)
@torch.no_grad()
def test_grey_and_oblong_images_are_read(name):
    model, images = make_rival(name, channels=1), noise_images(2, 1, 24, 40)
    p = model(images)
    assert p.probabilities.shape == (2, 5)
    assert p.rectified is None or p.rectified.shape == images.shape


@pytest.mark.parametrize("name", RIVALS)
def test_the_loss_reaches_every_parameter(name):
    model, images = make_rival(name).train(), noise_images(6)
    terms = model.losses(images, torch.arange(6) % 5, label_smoothing=0.1, noise=torch.Generator(), upright=images)
    assert "classification" in terms and all(term.ndim == 0 for term in terms.values())
    assert ("kl" in terms) == name.startswith("pstn") and ("prior" in terms) == name.startswith("canprior")
    torch.stack(list(terms.values())).sum().backward()
    untouched = [key for key, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert untouched == []


@pytest.mark.parametrize("name", TRAINED)
def test_a_frozen_classifier_stays_as_it_is_and_passes_the_gradient_on(name):
    model = make_rival(name)
    model.classifier.requires_grad_(False)
    model.train()
    before = copy.deepcopy(model.classifier.state_dict())
    model.losses(noise_images(), torch.arange(4))["classification"].backward()
    assert all(value.equal(before[key]) for key, value in model.classifier.state_dict().items())
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in model.localizer.parameters())


@pytest.mark.parametrize("name", METHODS)
@torch.no_grad()
def test_weights_survive_a_state_dict(name):
    model = make(name)
    torch.manual_seed(5)
    for parameter in model.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    other = make(name)
    other.load_state_dict(model.state_dict())
    images = noise_images()
    torch.testing.assert_close(other(images).probabilities, model(images).probabilities)


@pytest.mark.parametrize("name", RIVALS)
def test_several_labels_are_judged_one_by_one(name):
    model, images = make_rival(name, multi_label=True), noise_images()
    with torch.no_grad():
        p = model(images)
    assert ((p.probabilities > 0) & (p.probabilities < 1)).all()
    assert model.losses(images, torch.ones(4, 5))["classification"] > 0


@pytest.mark.parametrize("name", RIVALS)
@torch.no_grad()
def test_half_precision_keeps_the_geometry_in_fp32(name):
    model, images = make_rival(name), noise_images()
    with torch.autocast("cpu", torch.bfloat16):
        p = model(images)
    assert p.views.matrices.dtype == torch.float32 and p.probabilities.dtype == torch.float32
    halved = model.bfloat16()(images.bfloat16())
    assert halved.views.matrices.dtype == torch.float32
    assert torch.isfinite(halved.probabilities).all()


@pytest.mark.parametrize("name", ["stn", "polar", "canprior-g"])
def test_a_vision_transformer_is_as_good_as_a_cnn(name):
    model = make_rival(name)
    vit = type(model)(small_vit()).eval()
    assert vit(noise_images()).probabilities.shape == (4, 5)


def test_a_classifier_without_a_convolution_needs_its_preprocessing():
    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(ValueError, match="pass preprocessing"):
        type(make("stn"))(linear)
    known = Preprocessing(size=(8, 8), mean=(0.5,), std=(0.5,))
    model = type(make("stn"))(linear, preprocessing=known).eval()
    assert model(torch.rand(2, 1, 8, 8)).probabilities.shape == (2, 3)


def test_a_singular_matrix_has_no_pose_and_stops_nothing():
    model = type(make("stn"))(PlainCNN()).eval()
    with torch.no_grad():
        model.localizer.heads["matrix"].bias.zero_()
    p = model(noise_images())
    assert p.pose is not None and p.pose.scale.isnan().all() and torch.isfinite(p.probabilities).all()


def test_poses_may_be_read_from_other_images_than_are_rectified():
    model, images = make_rival("head-stn"), noise_images()
    seen = images.flip(0)
    p = model.classify(images, model.localize(seen))
    assert isinstance(p.pose, Pose)
    torch.testing.assert_close(p.pose.rotation, model(seen).pose.rotation)


@pytest.mark.parametrize("name", ["vanilla", "tta", "stn", "tokenstn-matrix"])
def test_names_for_other_classes_than_the_classifiers_are_refused(name):
    model = create(name, small_vit(num_classes=5), classes=("a", "b", "c")).eval()
    with pytest.raises(ValueError, match="has 5 outputs and 3 classes are named"):
        model(torch.randn(2, 3, 32, 32))
