"""The classifiers that the tests put a rectifier around."""

from collections.abc import Callable

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

ALL = ("rotation", "scale", "shear", "translation", "reflection")


class PlainCNN(nn.Module):
    """Written by hand, with no library's conventions."""

    def __init__(self, channels: int = 3, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, 16, 3, stride=2, padding=1), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.head = nn.Linear(32, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.body(self.stem(images)).mean((-2, -1)))


def small_vit(**changes) -> nn.Module:
    """A ViT of 3 blocks for 32×32 images."""
    settings = {
        "img_size": 32,
        "patch_size": 4,
        "embed_dim": 48,
        "depth": 3,
        "num_heads": 3,
        "num_classes": 5,
    } | changes
    return timm.create_model("vit_tiny_patch16_224", **settings)


def hugging_face_vit() -> nn.Module:
    """A small Hugging Face image classifier, made from its configuration."""
    transformers = pytest.importorskip("transformers", reason="Hugging Face's library is needed by this test alone")
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            hidden_size=48,
            num_hidden_layers=3,
            num_attention_heads=3,
            intermediate_size=96,
            image_size=32,
            patch_size=4,
            num_labels=5,
        )
    )


def from_timm(name: str) -> Callable[[], nn.Module]:
    return lambda: timm.create_model(name, num_classes=5)


# name: how to make it, what the localizer shares, and the (height, width) it then reads a native image at
BACKBONES: dict[str, tuple[Callable[[], nn.Module], int | str, tuple[int, int]]] = {
    "timm ViT": (from_timm("vit_tiny_patch16_224"), 2, (112, 112)),
    "DeiT3": (from_timm("deit3_small_patch16_224"), 2, (112, 112)),
    "DINOv2 at patch 14": (from_timm("vit_small_patch14_dinov2"), 2, (252, 252)),
    "EVA02": (from_timm("eva02_tiny_patch14_224"), 2, (112, 112)),
    "Swin": (from_timm("swin_tiny_patch4_window7_224"), 2, (112, 112)),
    "ConvNeXt": (from_timm("convnext_atto"), 2, (112, 112)),
    "ResNet": (from_timm("resnet18"), 2, (112, 112)),
    "EfficientNet-Lite": (from_timm("efficientnet_lite0"), 2, (112, 112)),
    "NextViT": (from_timm("nextvit_small"), 2, (112, 112)),
    "torchvision ResNet": (lambda: torchvision.models.resnet50(num_classes=5), "layer2", (112, 112)),
    "torchvision ViT": (
        lambda: torchvision.models.vit_b_16(num_classes=5),
        "encoder.layers.encoder_layer_1",
        (224, 224),
    ),
    "torchvision Swin": (lambda: torchvision.models.swin_t(num_classes=5), "features.1", (112, 112)),
    "CNN by hand": (PlainCNN, "body", (112, 112)),
    "Hugging Face ViT": (hugging_face_vit, "vit.layers.1", (32, 32)),
}
FIXED_SIZE = {"torchvision ViT", "Hugging Face ViT"}


@torch.no_grad()
def settle_batch_norm(classifier: nn.Module) -> nn.Module:
    """Give BatchNorm the statistics of some images; without them deep networks saturate and always answer the same."""
    norms = [module for module in classifier.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    if norms:
        classifier.train()(torch.randn(4, 3, 224, 224, generator=torch.Generator().manual_seed(2)))
    return classifier


@torch.no_grad()
def shake(module: nn.Module, amount: float = 0.3) -> nn.Module:
    """Move every parameter off its initial value by a share of its size: nothing agrees merely by being zero."""
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        size = parameter.abs().mean().clamp_min(0.02)
        parameter.add_(amount * size * torch.randn(parameter.shape, generator=generator))
    return module
