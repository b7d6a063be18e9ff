"""Freeze a part of a classifier, say how much it was, and keep that part as it is while the rest trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from tokenstn.models.backbone import Backbone

RULE = 2  # one more with every change of what is frozen with recipe.classifier "joint": a bench then trains again


@dataclass(frozen=True)
class FrozenReport:
    """What of a module is frozen: numbers of parameters and of tensors, and the first tensor that is not.

    >>> print(frozen_report(nn.Linear(2, 2)))
    0 of 6 parameters frozen (0.0%, 0 of 2 tensors), training from weight on
    """

    frozen_parameters: int
    parameters: int
    frozen_tensors: int
    tensors: int
    first_trainable: str | None

    @property
    def share(self) -> float:
        """Frozen parameters over all."""
        return self.frozen_parameters / max(self.parameters, 1)

    def __str__(self) -> str:
        trained = "none is trained" if self.first_trainable is None else f"training from {self.first_trainable} on"
        return (
            f"{self.frozen_parameters:,} of {self.parameters:,} parameters frozen ({self.share:.1%}, "
            f"{self.frozen_tensors} of {self.tensors} tensors), {trained}"
        )


def freeze_first_half(classifier: nn.Module, shared: Iterable[nn.Parameter] = ()) -> FrozenReport:
    """Freeze the first half of the parameters by count, in the order of ``named_parameters``, whole tensors only.

    The cut lies between the two tensors where the frozen count is nearest to half, the earlier one of two equally
    near: with one huge tensor in the middle, half is missed by less than by always stopping before it. The last tensor
    is never reached. Parameters after the cut are left as they are, also those that were frozen before; only where all
    of them were is the second half freed.

    Args:
        shared: what is frozen wherever it lies: of the layers that a localizer reads (``shared_parameters``).

    >>> print(freeze_first_half(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))))
    12 of 24 parameters frozen (50.0%, 2 of 4 tensors), training from 1.weight on
    """
    tensors = list(classifier.parameters())
    total = sum(tensor.numel() for tensor in tensors)
    frozen, cut, nearest = 0, 0, total
    for place, tensor in enumerate(tensors, 1):
        frozen += tensor.numel()
        if abs(2 * frozen - total) < nearest:
            cut, nearest = place, abs(2 * frozen - total)
    if not any(tensor.requires_grad for tensor in tensors):
        _free(tensors)
    for tensor in (*tensors[:cut], *shared):
        tensor.requires_grad_(False)
    return frozen_report(classifier)


def freeze_all(classifier: nn.Module) -> FrozenReport:
    """Freeze every parameter."""
    classifier.requires_grad_(False)
    return frozen_report(classifier)


def shared_parameters(backbone: Backbone) -> list[nn.Parameter]:
    """The parameters that the tokens of a localizer are made with: those that a gradient would reach."""
    with gradients_as_before(backbone), torch.enable_grad():
        parameters = _free(backbone.classifier.parameters())
        if backbone.prefix is None or not parameters:
            return []
        tokens = backbone.prefix(parameters[0].new_zeros(1, backbone.channels or 3, *backbone.input_size))
        if not tokens.requires_grad:  # layers without parameters
            return []
        found = torch.autograd.grad(tokens.sum(), parameters, allow_unused=True)
    return [parameter for parameter, gradient in zip(parameters, found, strict=True) if gradient is not None]


def _free(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """Those of some parameters that can have a gradient, which they now ask for: whole numbers have none."""
    found = [parameter for parameter in parameters if parameter.is_floating_point()]
    for parameter in found:
        parameter.requires_grad_()
    return found


@contextmanager
def gradients_as_before(module: nn.Module) -> Iterator[None]:
    """Whatever is frozen or freed meanwhile, a module is given back with the parameters trainable that were before."""
    before = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    try:
        yield
    finally:
        for parameter, trainable in before:
            parameter.requires_grad_(trainable)


def frozen_report(module: nn.Module) -> FrozenReport:
    """What of a module is frozen now."""
    named = list(module.named_parameters())
    frozen = [parameter for _, parameter in named if not parameter.requires_grad]
    return FrozenReport(
        frozen_parameters=sum(parameter.numel() for parameter in frozen),
        parameters=sum(parameter.numel() for _, parameter in named),
        frozen_tensors=len(frozen),
        tensors=len(named),
        first_trainable=next((name for name, parameter in named if parameter.requires_grad), None),
    )


def keep_frozen_parts_in_eval(module: nn.Module) -> None:
    """Put every part whose parameters are all frozen into evaluation mode; to be called after ``.train()``.

    A frozen BatchNorm would otherwise go on collecting statistics, of raw and of rectified images mixed. What has no
    parameters (dropout, stochastic depth, a BatchNorm without weights) follows the smallest part around it that has.
    """
    parameters = list(module.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        module.eval()
        return
    for part in module.children():
        keep_frozen_parts_in_eval(part)
