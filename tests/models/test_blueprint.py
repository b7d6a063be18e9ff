"""A classifier of timm or torchvision is built again from a name and arguments, or not at all: never a similar one."""

import warnings

import pytest
import timm
import torch
import torchvision
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from tokenstn.models.backbone import Backbone
from tokenstn.models.blueprint import Blueprint, blueprint_of

from .classifiers import PlainCNN, shake, small_vit


def find(classifier: nn.Module, size: int = 32) -> Blueprint | None:
    return Backbone(classifier, None, input_size=(size, size)).find_blueprint()


REBUILT = {
    "timm ResNet": (lambda: timm.create_model("test_resnet", num_classes=3), 64),
    "timm ConvNeXt": (lambda: timm.create_model("test_convnext", num_classes=3), 64),
    "timm model of one channel": (lambda: timm.create_model("test_resnet", num_classes=3, in_chans=1), 64),
    "timm model with a pretrained tag": (lambda: timm.create_model("resnet18.a1_in1k", num_classes=3), 64),
    "ViT at another image size": (lambda: timm.create_model("vit_tiny_patch16_224", img_size=32), 32),
    "oblong ViT": (lambda: small_vit(img_size=(32, 48)), (32, 48)),
    "ViT of another shape": (lambda: small_vit(in_chans=1, num_classes=3, mlp_ratio=2.5), 32),
    "ViT that averages its tokens": (lambda: small_vit(global_pool="avg"), 32),
    "ViT made from its class": (
        lambda: VisionTransformer(32, 8, embed_dim=32, depth=2, num_heads=2, num_classes=3),
        32,
    ),
    "EVA of another depth": (
        lambda: timm.create_model("eva02_tiny_patch14_224", img_size=28, depth=2, num_classes=3),
        28,
    ),
    "torchvision ResNet": (lambda: torchvision.models.resnet18(num_classes=3), 64),
    "torchvision SqueezeNet": (lambda: torchvision.models.squeezenet1_1(num_classes=3), 64),
    "torchvision ViT": (lambda: torchvision.models.vit_b_16(num_classes=3, image_size=32), 32),
}


@pytest.mark.parametrize("name", REBUILT)
def test_the_blueprint_makes_a_model_that_takes_the_weights_and_gives_the_answers(name):
    make, size = REBUILT[name]
    size = (size, size) if isinstance(size, int) else size
    classifier = shake(make()).eval()
    backbone = Backbone(classifier, None, input_size=size)
    blueprint = backbone.find_blueprint()
    assert blueprint is not None
    rebuilt = blueprint.build().eval()
    rebuilt.load_state_dict(classifier.state_dict())
    images = torch.rand(2, backbone.channels, *size)
    with torch.no_grad():
        torch.testing.assert_close(rebuilt(images), classifier(images))


def test_a_head_replaced_by_hand_is_found():
    classifier = small_vit()
    classifier.head = nn.Linear(classifier.embed_dim, 2)
    blueprint = find(classifier)
    assert blueprint is not None
    assert blueprint.arguments["num_classes"] == 2


def test_a_model_for_any_image_size_stays_one():
    blueprint = find(small_vit(dynamic_img_size=True))
    assert blueprint is not None
    assert blueprint.build()(torch.rand(1, 3, 48, 48)).shape == (1, 5)


def with_another_activation(classifier: nn.Module) -> None:
    classifier.blocks[0].mlp.act = nn.ReLU()


def with_an_extra_layer(classifier: nn.Module) -> None:
    classifier.head = nn.Sequential(nn.Linear(classifier.embed_dim, 8), classifier.head)


def with_swapped_channels(classifier: nn.Module) -> None:
    classifier.register_forward_pre_hook(lambda _, inputs: (inputs[0].flip(1),))


def with_flipped_images(classifier: nn.Module) -> None:
    classifier.register_forward_pre_hook(lambda _, inputs: (inputs[0].flip(2),))


def with_averaged_answers(classifier: nn.Module) -> None:
    classifier.register_forward_hook(lambda _, inputs, output: output.mean(-1))


@pytest.mark.parametrize(
    "alter",
    [with_another_activation, with_an_extra_layer, with_swapped_channels, with_flipped_images, with_averaged_answers],
)
def test_a_model_altered_by_hand_has_no_blueprint(alter):
    classifier = small_vit()
    alter(classifier)
    assert find(classifier) is None


def test_an_alteration_is_noticed_behind_a_layer_scale_next_to_zero():
    classifier = timm.create_model("test_convnext")
    for module in classifier.modules():
        if hasattr(module, "mlp"):
            module.mlp.act = nn.ReLU()
    assert find(classifier) is None


class Derived(VisionTransformer):
    """A class of one's own, even where it computes the same."""


@pytest.mark.parametrize("make", [PlainCNN, lambda: Derived(32, 8, embed_dim=32, depth=2, num_heads=2)])
def test_other_classes_have_no_blueprint(make):
    assert find(make()) is None


def test_finding_a_blueprint_leaves_the_classifier_and_the_random_numbers_alone():
    classifier = small_vit(num_classes=3).train()
    classifier.blocks[0].eval()
    classifier.head.requires_grad_(False)
    modes = [module.training for module in classifier.modules()]
    trained = [parameter.requires_grad for parameter in classifier.parameters()]
    weights = {key: value.clone() for key, value in classifier.state_dict().items()}
    state = torch.get_rng_state()
    assert find(classifier) is not None
    assert [module.training for module in classifier.modules()] == modes
    assert [parameter.requires_grad for parameter in classifier.parameters()] == trained
    assert torch.equal(torch.get_rng_state(), state)
    torch.testing.assert_close(classifier.state_dict(), weights, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_classifier_of_another_dtype_is_recognised(dtype):
    classifier = small_vit().to(dtype)
    assert blueprint_of(classifier, torch.rand(1, 3, 32, 32, dtype=dtype)) is not None


@pytest.mark.parametrize(
    ("library", "name", "arguments", "reason"),
    [
        ("keras", "resnet18", {}, "unknown model library"),
        (["timm"], "resnet18", {}, "unknown model library"),
        ("timm", "resnet19", {}, "no model named"),
        ("timm", "hf-hub:timm/resnet18.a1_in1k", {}, "no model named"),
        ("timm", "local-dir:/tmp", {}, "no model named"),
        ("torchvision", "resnet19", {}, "no model named"),
        ("torchvision", "fasterrcnn_resnet50_fpn", {}, "no model named"),
        ("timm", 18, {}, "a name and a dict"),
        ("timm", "resnet18", ["num_classes"], "a name and a dict"),
        ("timm", "resnet18", {"pretrained": True}, "other weights"),
        ("timm", "resnet18", {"checkpoint_path": "evil.pth"}, "other weights"),
        ("timm", "resnet18", {"pretrained_cfg": {"file": "evil.pth"}}, "other weights"),
        ("timm", "resnet18", {"pretrained_cfg_overlay": {"file": "evil.pth"}}, "other weights"),
        ("torchvision", "resnet18", {"weights": "DEFAULT"}, "other weights"),
    ],
)
def test_what_is_unknown_or_would_fetch_weights_is_refused(library, name, arguments, reason):
    with pytest.raises(ValueError, match=reason):
        Blueprint(library, name, arguments).build()


@pytest.mark.parametrize(("name", "device"), [("resnet18", "meta"), ("regnet_y_400mf", "cpu")])
def test_a_skeleton_has_the_names_and_shapes_of_the_model(name, device):
    blueprint = Blueprint("torchvision", name, {"num_classes": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skeleton, model = blueprint.skeleton().state_dict(), blueprint.build().state_dict()
    assert {key: value.shape for key, value in skeleton.items()} == {key: value.shape for key, value in model.items()}
    assert {value.device.type for value in skeleton.values()} == {device}


def test_a_builder_that_computes_with_tensors_is_found_again():
    classifier = torchvision.models.regnet_y_400mf(num_classes=3).eval()
    assert blueprint_of(classifier, torch.randn(1, 3, 64, 64)) == Blueprint(
        "torchvision", "regnet_y_400mf", {"num_classes": 3}
    )
