"""Classifiers that keep their patch size and their channels in unusual places are wrapped, saved and transferred."""

import pytest
import timm
import torch
from torch import nn

import tokenstn
from tokenstn import TokenSTN
from tokenstn.models.first_layer import input_channels, patch_size

from .classifiers import PlainCNN, shake, small_vit

# XCiT and this EfficientViT keep the patch as one number; CSATv2 rearranges the pixels first
UNUSUAL = {"xcit_nano_12_p16_224": 64, "efficientvit_m0": 224, "csatv2": 64}


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:EfficientVitMsra cannot read images at half size")
@pytest.mark.parametrize(("name", "side"), UNUSUAL.items())
def test_a_fresh_rectifier_changes_no_answer_of_an_unusual_classifier(name, side):
    sized = {"img_size": side} if name.startswith("xcit") else {}
    classifier = timm.create_model(name, num_classes=4, **sized).eval()
    model = TokenSTN(classifier, input_size=(side, side)).eval()
    images = torch.randn(2, 3, side, side)
    p = model(images, views=1)
    torch.testing.assert_close(p.probabilities, classifier(images).softmax(-1), atol=1e-4, rtol=0)
    assert model.backbone.find_blueprint() is not None


@torch.no_grad()
def test_a_checkpoint_of_an_unusual_classifier_is_converted(tmp_path):
    classifier = timm.create_model("xcit_nano_12_p16_224", num_classes=4).eval()
    torch.save(classifier.state_dict(), tmp_path / "weights.pth")
    model = tokenstn.load(tokenstn.convert(tmp_path / "weights.pth", "xcit_nano_12_p16_224"))
    images = torch.randn(1, 3, 224, 224)
    torch.testing.assert_close(model(images).probabilities, classifier(images).softmax(-1))


@torch.no_grad()
def test_a_classifier_that_timm_cannot_cut_down_lends_its_rectifier_whole():
    donor = TokenSTN(shake(timm.create_model("efficientvit_b0", num_classes=3)), input_size=(64, 64)).eval()
    shake(donor.localizer, 1.0)
    model = TokenSTN(PlainCNN(), rectifier=donor, preprocessing=donor.preprocessing).eval()
    images = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(model(images, views=1).pose.matrix, donor(images, views=1).pose.matrix)


@pytest.mark.parametrize(("name", "patch"), [("xcit_nano_12_p8_224", 8), ("efficientvit_m0", 16), ("test_vit", 16)])
def test_the_patch_has_a_height_and_a_width(name, patch):
    with torch.device("meta"):
        assert patch_size(timm.create_model(name)) == (patch, patch)


def test_an_oblong_patch_keeps_both_of_its_sides():
    assert patch_size(small_vit(patch_size=(4, 8))) == (4, 8)


@pytest.mark.parametrize("name", ["resnet18", "test_vit", "tresnet_m"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_classifier_takes_the_channels_it_was_made_with(name, channels):
    with torch.device("meta"):
        classifier = timm.create_model(name, in_chans=channels)
    assert input_channels(classifier, classifier.pretrained_cfg["input_size"][1:]) == channels


def test_a_first_layer_replaced_by_hand_says_what_it_takes():
    classifier = timm.create_model("test_resnet")
    first = classifier.conv1[0]
    classifier.conv1[0] = nn.Conv2d(1, first.out_channels, first.kernel_size, first.stride, first.padding)
    assert input_channels(classifier, (64, 64)) == 1
    assert TokenSTN(classifier.eval())(torch.randn(2, 1, 64, 64)).probabilities.shape == (2, 1000)


def test_finding_the_channels_trains_nothing():
    classifier = timm.create_model("csatv2").train()
    before = {key: value.clone() for key, value in classifier.state_dict().items()}
    assert input_channels(classifier, (64, 64)) == 3 and classifier.training
    assert all(torch.equal(value, before[key]) for key, value in classifier.state_dict().items())
