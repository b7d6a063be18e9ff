"""Numbers that are none: weights that may not be kept, and answers that may not be given."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def broken_weights(model: nn.Module) -> list[str]:
    """The names of parameters that are not finite, and of buffers that are not numbers; a mask may be infinite.

    >>> layer = nn.Linear(1, 1)
    >>> _ = nn.init.constant_(layer.bias, float("nan"))
    >>> broken_weights(layer)
    ['bias']
    """
    wrong = {name: ~torch.isfinite(values.detach()).all() for name, values in model.named_parameters()}
    wrong |= {name: values.isnan().any() for name, values in model.named_buffers() if values.is_floating_point()}
    return [name for name, found in zip(wrong, _on_the_cpu(list(wrong.values())), strict=True) if found]


def is_answer(probabilities: Tensor) -> Tensor:
    """Which answers ``(B, classes)`` are numbers, ``(B,)`` bool on the CPU.

    A call does not look at values on a GPU, so that an image or a weight that is not finite, or an overflow in half
    precision, gives an answer that is not a number. Whoever takes answers to the CPU asks here first.
    """
    return torch.isfinite(probabilities).all(-1).cpu()


def why_no_answer(precision: str) -> str:
    """A reason, for people; ``precision`` as in ``call_settings``."""
    if precision in ("float16", "bfloat16"):
        return f"the model's answer is not a number in {precision}: try it in float32"
    return "the model's answer is not a number: its weights are broken, or too large for these pixels"


def _on_the_cpu(flags: list[Tensor]) -> list[bool]:
    """One wait for all."""
    return torch.stack(flags).tolist() if flags else []
