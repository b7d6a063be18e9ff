"""Networks in few launches: the way forward and the way back, recorded once each as CUDA graphs and played back.

A step on a batch of small images takes a GPU some milliseconds in a thousand kernels, and a host longer to launch them
one by one. What surrounds the networks, such as moving images, labels and the optimizer, runs as always.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import lightning
import torch
from torch import Tensor, nn

from tokenstn.models import TokenSTN
from tokenstn.models.recording import autocast_precision, autocast_to_record
from tokenstn.training.rectifier_training import RectifierTraining

MOST_SHAPES = 4  # of batches, and ways to read them, that are recorded: each holds the memory of its own step
WELL_BEHAVED = ("timm", "torchvision", "tokenstn")  # packages whose networks do the same in every step


class PlayedBack:
    """A function of images, of numbers about them and of the weights of ``owner``, with its gradients.

    It is recorded for every shape of batch and way to call it, when that comes for the second time. What a recording
    gives is overwritten by its next call, so it is used once in a step: further calls, calls without gradients and
    calls elsewhere than on CUDA run as they are.
    """

    def __init__(self, function: Callable[..., Any], owner: nn.Module) -> None:
        self.function, self.owner = function, owner
        self._weights = {name: weight for name, weight in owner.named_parameters() if weight.requires_grad}
        self._kept: dict[tuple, Callable[..., Any] | None] = {}  # None: seen once
        self._used = self._never = False

    def next_step(self) -> None:
        """What the last step gave is not needed any more."""
        self._used = False

    def __call__(self, images: Tensor, *numbers: Tensor, **how: bool) -> Any:
        function = partial(self.function, **how)
        learns = torch.is_grad_enabled() and (images.requires_grad or bool(self._weights))
        if self._used or self._never or not (images.is_cuda and learns):
            return function(images, *numbers)
        state = (images.requires_grad, autocast_precision(), self.owner.training)
        key = (images.shape, images.dtype, *state, *sorted(how.items()))
        if key not in self._kept:
            if len(self._kept) < MOST_SHAPES:
                self._kept[key] = None
            return function(images, *numbers)
        recorded = self._kept[key] = self._kept[key] or self._recorded(function, images, numbers)
        if recorded is None:
            return function(images, *numbers)
        self._used = True
        return recorded(images, *numbers, *self._weights.values())

    def _recorded(
        self, function: Callable[..., Any], images: Tensor, numbers: tuple[Tensor, ...]
    ) -> Callable[..., Any] | None:
        """A function as two graphs, of images, numbers and weights; None where it cannot be recorded."""
        sample = images.detach().clone().requires_grad_(images.requires_grad)
        others = [values.detach().clone() for values in numbers]
        # the same memory, but not the same node of autograd: that one belongs to the stream of the steps before
        aliases = [weight.detach().requires_grad_() for weight in self._weights.values()]
        network, names = _Network(function, self.owner), [f"owner.{name}" for name in self._weights]

        def run(images: Tensor, *rest: Tensor) -> Any:
            given, weights = rest[: len(numbers)], rest[len(numbers) :]
            return torch.func.functional_call(network, dict(zip(names, weights, strict=True)), (images, *given))

        statistics = [(values, values.clone()) for values in self.owner.buffers()]  # recording runs the network, too
        random = torch.cuda.default_generators[images.device.index or 0]
        spare, here = random.clone_state(), torch.cuda.stream(torch.cuda.current_stream(images.device))
        try:
            with here, autocast_to_record():
                recorded: Any = torch.cuda.make_graphed_callables(
                    run, (sample, *others, *aliases), allow_unused_input=True
                )
        except RuntimeError as error:  # a network that waits for the GPU, for one
            random.graphsafe_set_state(spare)
            warnings.warn(f"trained without CUDA graphs: {str(error).splitlines()[0]}", stacklevel=2)
            self._never, recorded = True, None
        for values, before in statistics:
            values.copy_(before)
        return recorded


class _Network(nn.Module):
    """A function that uses the weights of another module."""

    function: Callable[..., Any]

    def __init__(self, function: Callable[..., Any], owner: nn.Module) -> None:
        super().__init__()
        self.owner = owner
        object.__setattr__(self, "function", function)  # which may be a module, and is not to be one of this module's

    def forward(self, *given: Tensor) -> Any:
        return self.function(*given)


class PlayBack(lightning.Callback):
    """The networks of a model are played back while it trains on one GPU, and are as they were afterwards."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._placed: list[tuple[Any, str, PlayedBack]] = []

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        alone = trainer.world_size == 1 and trainer.accumulate_grad_batches == 1  # gradients are not added up
        known = type(self.model.classifier).__module__.split(".")[0] in WELL_BEHAVED
        if not (alone and known and pl_module.device.type == "cuda"):
            return
        places: list[tuple[Any, str, nn.Module]] = [(self.model.backbone, "logits", self.model.classifier)]
        localizer = self.model.localizer if isinstance(self.model, TokenSTN) else None
        if localizer is not None and isinstance(pl_module, RectifierTraining) and pl_module.learns_poses_alone:
            places.append((pl_module, "aligned", localizer))  # the loss is recorded along
        elif localizer is not None:
            places.append((self.model, "heads", localizer))
        for place, name, owner in places:
            played = PlayedBack(getattr(place, name), owner)
            setattr(place, name, played)
            self._placed.append((place, name, played))

    def on_train_batch_start(self, *_: Any, **__: Any) -> None:
        for _place, _name, played in self._placed:
            played.next_step()

    def on_fit_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self.put_back()

    def on_exception(self, *_: Any, **__: Any) -> None:
        self.put_back()

    def put_back(self) -> None:
        """The model's own functions in the places of those that are played back."""
        for place, name, _ in self._placed:
            delattr(place, name)
        self._placed = []
