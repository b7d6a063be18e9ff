"""How to build a classifier again: library, name and arguments, found by trying and checked by rebuilding.

Neither timm nor torchvision models remember the arguments that made them. The likely ones are read off the model,
a second model is built from them, and only when it takes the same weights and gives the same answers is the blueprint
believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import timm
import torch
import torchvision
from torch import Tensor, nn
from torch.func import functional_call

from tokenstn.models.first_layer import input_channels
from tokenstn.models.medvit import MedViT, medvit_large, medvit_small, medvit_tiny
from tokenstn.models.twin import twin_of

LIBRARIES = ("timm", "torchvision", "tokenstn")
OWN_MODELS: dict[str, Callable[..., nn.Module]] = {
    "medvit": MedViT, "medvit_tiny": medvit_tiny, "medvit_small": medvit_small, "medvit_large": medvit_large,
}  # fmt: skip
# arguments that would fetch or read other weights, whatever the builder
FOREIGN_WEIGHTS = ("pretrained", "weights", "checkpoint")
LARGEST_NUMBER = 250_000  # in the arguments of a network
LONGEST_LIST = 1000


@dataclass(frozen=True)
class Blueprint:
    """``library`` is one of LIBRARIES, ``name`` one of its models, ``arguments`` what its builder is called with."""

    library: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def build(self) -> nn.Module:
        """A new, untrained model. Nothing is downloaded, and names that would are refused."""
        if not (isinstance(self.name, str) and isinstance(self.arguments, dict)):
            raise ValueError(
                f"a blueprint has a name and a dict of arguments, got {self.name!r} and {self.arguments!r}"
            )
        if self.library not in LIBRARIES:
            raise ValueError(f"unknown model library {self.library!r}; there are {', '.join(LIBRARIES)}")
        if not _has_model(self.library, self.name):
            raise ValueError(f"{self.library} has no model named {self.name!r}; a newer version may have it")
        if any(argument.startswith(FOREIGN_WEIGHTS) for argument in self.arguments):
            raise ValueError(f"the arguments of {self.name} ask for other weights: {sorted(self.arguments)}")
        _require_modest(self.arguments, "arguments")
        if self.library == "timm":
            return timm.create_model(self.name, pretrained=False, **self.arguments)
        if self.library == "tokenstn":
            return OWN_MODELS[self.name](**self.arguments)
        return torchvision.models.get_model(self.name, weights=None, **self.arguments)

    def skeleton(self) -> nn.Module:
        """The model without memory for its weights, except for the few builders that compute with tensors."""
        try:
            with torch.device("meta"):
                return self.build()
        except NotImplementedError:  # torchvision's RegNet
            return self.build()


def blueprint_of(classifier: nn.Module, example: Tensor) -> Blueprint | None:
    """The blueprint that rebuilds the classifier, or None when none was found that gives the same answers.

    ``example``: images ``(B, C, H, W)`` that the classifier accepts, on its device and in its dtype. The two are
    compared on noise of that shape, in which no two pixels, rows or channels are alike.
    """
    noise = torch.randn(example.shape, generator=torch.Generator().manual_seed(0)).to(example)
    likely = _likely_blueprints(classifier, (example.shape[-2], example.shape[-1]))
    with torch.random.fork_rng(devices=[]):  # initialising the second model is not to disturb anyone's training
        return next((blueprint for blueprint in likely if _rebuilds(blueprint, classifier, noise)), None)


def _require_modest(value: Any, where: str) -> None:
    """Refuse numbers and lists that no network is made with."""
    if isinstance(value, int | float) and not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
        raise ValueError(f"{where} is {value}: from {-LARGEST_NUMBER:,} to {LARGEST_NUMBER:,}")
    if isinstance(value, dict | list):
        if len(value) > LONGEST_LIST:
            raise ValueError(f"{where} has {len(value):,} entries: at most {LONGEST_LIST:,}")
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _require_modest(item, f"{where}.{key}")


def _rebuilds(blueprint: Blueprint, classifier: nn.Module, example: Tensor) -> bool:
    wanted = classifier.state_dict()
    try:
        shapes = {key: value.shape for key, value in blueprint.skeleton().state_dict().items()}
    except (TypeError, ValueError, RuntimeError, AssertionError):
        return False  # arguments that this builder does not take
    if shapes != {key: value.shape for key, value in wanted.items()}:
        return False
    rebuilt = blueprint.build().to(device=example.device, dtype=example.dtype).eval()
    rebuilt.load_state_dict(wanted)
    parameters = {name: _noticeable(parameter) for name, parameter in classifier.named_parameters()}
    with torch.no_grad():  # the twin, so that the classifier keeps its mode, and nothing that was made of the noise
        given, again = (functional_call(model, parameters, example) for model in (twin_of(classifier), rebuilt))
    return given.shape == again.shape and torch.allclose(given, again, rtol=1e-4, atol=1e-5)


def _noticeable(parameter: Tensor) -> Tensor:
    """The parameter, or noise where it is next to zero: such a layer scale would hide what is behind it."""
    if parameter.numel() == 0 or parameter.detach().abs().amax() > 1e-2:
        return parameter
    noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    return parameter + 0.1 * noise.to(parameter)


def _likely_blueprints(classifier: nn.Module, size: tuple[int, int]) -> Iterator[Blueprint]:
    if type(classifier).__module__.startswith("timm."):
        yield from _likely_timm(classifier, size)
    elif type(classifier).__module__.startswith("torchvision."):
        yield from _likely_torchvision(classifier)
    elif type(classifier) is MedViT:
        yield from _likely_medvit(classifier)


def _likely_timm(classifier: Any, size: tuple[int, int]) -> Iterator[Blueprint]:
    architecture = (getattr(classifier, "pretrained_cfg", None) or {}).get("architecture")
    if architecture is None and hasattr(classifier, "blocks"):
        architecture = "vit_tiny_patch16_224"  # a VisionTransformer made from its class; the arguments say the rest
    if architecture is None:
        return
    # the head may have been replaced by hand, which leaves num_classes as it was
    head = classifier.get_classifier() if hasattr(classifier, "get_classifier") else None
    plain = {"num_classes": getattr(head, "out_features", getattr(classifier, "num_classes", None))}
    if getattr(classifier, "dynamic_img_size", False):
        plain["dynamic_img_size"] = True
    channels = input_channels(classifier, size)
    if channels not in (None, 3):
        plain["in_chans"] = channels
    yield Blueprint("timm", architecture, plain)
    patch_embed: Any = getattr(classifier, "patch_embed", None)
    if getattr(patch_embed, "img_size", None) is not None:
        sized = {**plain, "img_size": list(patch_embed.img_size)}
        yield Blueprint("timm", architecture, sized)
        shape = _vit_shape(classifier)
        if shape:
            yield Blueprint("timm", architecture, {**sized, **shape})
            yield Blueprint("timm", architecture, {**sized, **shape, "global_pool": classifier.global_pool})


def _vit_shape(classifier: Any) -> dict[str, Any]:
    """The arguments that shape a ViT; empty for models that are not built like one."""
    blocks = getattr(classifier, "blocks", ())
    if len(blocks) == 0 or not hasattr(getattr(blocks[0], "attn", None), "num_heads"):
        return {}
    shape = {
        "patch_size": classifier.patch_embed.patch_size[0],
        "embed_dim": classifier.embed_dim,
        "depth": len(blocks),
        "num_heads": blocks[0].attn.num_heads,
    }
    # the second layer of the MLP, because a gated first one is twice as wide
    second = getattr(getattr(blocks[0], "mlp", None), "fc2", None)
    return shape if second is None else {**shape, "mlp_ratio": second.in_features / classifier.embed_dim}


def _likely_torchvision(classifier: nn.Module) -> Iterator[Blueprint]:
    heads = [module.out_features for module in classifier.modules() if isinstance(module, nn.Linear)]
    # SqueezeNet ends with a convolution, and says how many classes it has
    arguments: dict[str, Any] = {"num_classes": heads[-1] if heads else getattr(classifier, "num_classes", None)}
    if isinstance(getattr(classifier, "image_size", None), int):
        arguments["image_size"] = classifier.image_size
    for name in torchvision_names():
        made = torchvision.models.get_model_builder(name).__annotations__.get("return")
        if made is type(classifier) or made == type(classifier).__name__:
            yield Blueprint("torchvision", name, arguments)


def _likely_medvit(classifier: MedViT) -> Iterator[Blueprint]:
    weights = classifier.state_dict()
    head, first = weights.get("proj_head.0.weight"), weights["stem.0.conv.weight"]
    if head is not None:  # replaced by hand otherwise
        plain = {"depth": classifier.depth, "num_classes": head.shape[0], "in_chans": first.shape[1]}
        yield Blueprint("tokenstn", "medvit", {**plain, "drop_path": classifier.drop_path})


def library_of(name: str) -> str | None:
    """The library that builds a model of this name: ours, else timm, else torchvision; None when there is none."""
    return next((library for library in ("tokenstn", "timm", "torchvision") if _has_model(library, name)), None)


def _has_model(library: str, name: str) -> bool:
    if library == "tokenstn":
        return name in OWN_MODELS
    return timm.is_model(name) if library == "timm" else name in torchvision_names()


def torchvision_names() -> list[str]:
    """The classifiers that torchvision builds by name."""
    return torchvision.models.list_models(module=torchvision.models)
