"""A trained rectifier goes in front of another classifier, with the first layers it learned to read."""

import pytest
import torch

from tokenstn import Preprocessing, TokenSTN, create
from tokenstn.models import AutoViews

from .classifiers import ALL, PlainCNN, shake, small_vit

GREY = Preprocessing(size=(32, 32), mean=(0.5,) * 3, std=(0.5,) * 3)
IMAGENET = Preprocessing(size=(32, 32), mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


def rectifier(**settings) -> TokenSTN:
    torch.manual_seed(0)
    model = TokenSTN(shake(small_vit()), primitives=ALL, preprocessing=GREY, **settings).eval()
    shake(model.localizer, 1.0)
    return model


@torch.no_grad()
def test_the_pose_is_the_rectifiers_and_the_answer_the_new_classifiers():
    donor = rectifier()
    classifier = shake(PlainCNN(classes=7)).eval()
    model = TokenSTN(classifier, rectifier=donor, preprocessing=GREY).eval()
    images = torch.randn(3, 3, 32, 32)
    p, own = model(images, views=3), donor(images, views=3)
    torch.testing.assert_close(p.pose.matrix, own.pose.matrix, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(p.views.weights, own.views.weights, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model(images, views=1).probabilities, classifier(p.rectified).softmax(-1))


@torch.no_grad()
def test_images_of_another_normalisation_and_size_are_brought_to_the_rectifiers():
    donor = rectifier(localization_size=32)
    model = TokenSTN(shake(PlainCNN()), rectifier=donor, preprocessing=IMAGENET).eval()
    pixels = torch.rand(3, 3, 32, 32)
    mean, std = (torch.tensor(numbers)[:, None, None] for numbers in (IMAGENET.mean, IMAGENET.std))
    found = model((pixels - mean) / std, views=1).pose.matrix
    torch.testing.assert_close(found, donor((pixels - 0.5) / 0.5, views=1).pose.matrix, atol=1e-4, rtol=1e-4)
    assert model(torch.randn(1, 3, 48, 64), views=2).rectified.shape == (1, 3, 48, 64)


@torch.no_grad()
def test_images_of_another_aspect_are_read_whole_and_a_translation_keeps_its_unit():
    """The object in the middle of a wide image is as large as in a square one; so is a step of it."""
    torch.manual_seed(0)
    wide = TokenSTN(
        shake(PlainCNN()), ("translation",), shared="body", input_size=(32, 64), localization_size=1.0
    ).eval()  # fmt: skip
    shake(wide.localizer, 1.0)
    model = TokenSTN(shake(PlainCNN()), rectifier=wide, input_size=(64, 64)).eval()
    square, seen = torch.randn(2, 3, 64, 64), []
    assert model.encoder is not None
    model.encoder.prefix = lambda images, read=model.encoder.prefix: (seen.append(images.shape[-2:]), read(images))[1]
    model.localize(square)
    assert seen == [(32, 32)], "the shorter side as it was learned, and nothing cut off"


def test_what_reads_no_tokens_is_refused_as_a_rectifier():
    for other in (create("tokenstn-pixels", PlainCNN()), create("stn", PlainCNN()), TokenSTN(PlainCNN(), ())):
        with pytest.raises(ValueError, match="that reads no tokens"):
            TokenSTN(PlainCNN(), rectifier=other)


def test_only_the_prefix_is_carried_along():
    donor = rectifier()
    model = TokenSTN(PlainCNN(), rectifier=donor)
    carried = sum(parameter.numel() for parameter in model.encoder.parameters())
    whole = sum(parameter.numel() for parameter in donor.classifier.parameters())
    assert carried < 0.8 * whole
    assert len(donor.classifier.blocks) == 3, "the rectifier's own classifier is not pruned"


@torch.no_grad()
def test_training_the_new_model_leaves_the_donor_alone():
    donor = rectifier()
    before = {key: value.clone() for key, value in donor.state_dict().items()}
    shake(TokenSTN(PlainCNN(), rectifier=donor))
    assert all(torch.equal(value, before[key]) for key, value in donor.state_dict().items())


@torch.no_grad()
def test_a_transferred_rectifier_can_be_transferred_again():
    donor = rectifier()
    first = TokenSTN(PlainCNN(), rectifier=donor, preprocessing=GREY).eval()
    second = TokenSTN(small_vit(), rectifier=first, preprocessing=GREY).eval()
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(second(images, views=1).pose.matrix, donor(images, views=1).pose.matrix)


def test_settings_of_its_own_beside_a_rectifier_are_refused():
    with pytest.raises(ValueError, match="brings its own primitives"):
        TokenSTN(PlainCNN(), primitives=("rotation",), rectifier=rectifier())


def test_what_the_poses_mean_and_how_many_views_are_looked_at_is_the_rectifiers():
    donor = rectifier(poses="relative", auto=AutoViews(spread_deg=0.0))
    model = TokenSTN(PlainCNN(), rectifier=donor)
    assert (model.poses, model.auto) == ("relative", donor.auto)
    own = TokenSTN(PlainCNN(), rectifier=donor, poses="relative", auto=AutoViews(most=2))
    assert own.auto == AutoViews(most=2), "what is given goes first"


@pytest.mark.parametrize(("trained", "given"), [("absolute", "relative"), ("relative", "absolute")])
def test_poses_that_the_rectifier_does_not_find_are_refused(trained, given):
    with pytest.raises(ValueError, match=f"poses='{given}': those of the rectifier are {trained}"):
        TokenSTN(PlainCNN(), rectifier=rectifier(poses=trained), poses=given)


def test_the_rectifier_goes_where_the_classifier_is():
    model = TokenSTN(PlainCNN().to("meta"), rectifier=rectifier())
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


@torch.no_grad()
def test_the_rectifier_reads_in_the_precision_of_the_classifier():
    donor = rectifier()
    model = TokenSTN(shake(PlainCNN()).bfloat16(), rectifier=donor, preprocessing=GREY).eval()
    images = torch.randn(2, 3, 32, 32).bfloat16()
    pose = model(images, views=1).pose
    assert {parameter.dtype for parameter in model.encoder.parameters()} == {torch.bfloat16}
    assert (pose.rotation - donor(images.float(), views=1).pose.rotation).abs().max() < 0.1
    assert next(donor.parameters()).dtype == torch.float32, "the donor stays as it was"


def test_whatever_asks_for_a_gradient_gets_one():
    """Distributed training waits for every gradient that was asked for."""
    model = TokenSTN(PlainCNN(), rectifier=rectifier(), preprocessing=GREY).train()
    model(torch.randn(2, 3, 32, 32), views=1).probabilities[:, 0].log().sum().backward()
    assert [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None] == []
    assert not model.encoder.classifier.training


def test_a_rectifier_for_another_number_of_channels_is_refused():
    grey_scale = Preprocessing(size=(32, 32), mean=(0.5,), std=(0.5,))
    model = TokenSTN(PlainCNN(channels=1), rectifier=rectifier(), preprocessing=grey_scale)
    with pytest.raises(ValueError, match="1 channels cannot be read by a rectifier of 3"):
        model(torch.randn(1, 1, 32, 32))


class NearestColour(torch.nn.Module):
    """A classifier without a single floating parameter, or with a table of whole numbers that comes first."""

    def __init__(self, table: bool) -> None:
        super().__init__()
        self.table = (
            torch.nn.Parameter(torch.tensor([[0], [1]], dtype=torch.int8), requires_grad=False) if table else None
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        level = images.mean((1, 2, 3)).unsqueeze(1)
        return torch.cat((level, -level), 1)


@pytest.mark.parametrize("table", [True, False])
@torch.no_grad()
def test_a_rectifier_stays_as_it_is_before_a_classifier_without_floating_parameters(table):
    donor = rectifier().double()
    model = TokenSTN(NearestColour(table), rectifier=donor, preprocessing=GREY).eval()
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(model(images, views=1).pose.rotation, donor(images, views=1).pose.rotation)
