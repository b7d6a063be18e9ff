"""The rectifier as one launch: recorded once for each shape of batch, and played back.

Reading the pose takes a GPU less than a millisecond, in some hundred small kernels; a host that launches them one by
one can take longer than the GPU does for the classifier. A CUDA graph launches them together. It computes on the same
weights in the same memory, so weights that are trained or loaded in place are seen; where they are elsewhere, or the
layers are others, recording starts anew.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from tokenstn.geometry import Pose
from tokenstn.geometry.constants import constants_used
from tokenstn.posteriors import Views

MOST_SHAPES = 12  # recordings that are kept: each holds its inputs and its output

# the raw numbers of each posterior, the most likely pose, the views with their masses, the first view (B, C, H, W)
Aimed = tuple[dict[str, Tensor], Pose, Views, Tensor]
Reading = Callable[..., Aimed]

_one_capture = threading.Lock()  # beginning one waits for the device, which another one under way would not survive


class Recorder:
    """Plays back a reading ``(*inputs, views, blur) → Aimed``, recording it for every new number and shape of inputs.

    The recordings share the memory of their intermediate results: what one of them gives is copied before the next. A
    network that cannot be recorded is computed, with a warning.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple, _Recording] = {}
        self._aside: torch.cuda.Stream | None = None  # where all of them are recorded, so that they can share memory
        self._pool: Any = None  # torch's handle of it
        self._weights: Weights | None = None
        self._place: Hashable = None
        self._last: torch.cuda.Stream | None = None
        self._never = False
        self._one_at_a_time = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """For copies and pickles: a recording belongs to this process and these weights."""
        return type(self), ()

    def takes(self, images: Tensor) -> bool:
        """Whether a call can be played back: on CUDA, without gradients, outside of anything that traces or counts."""
        if torch.compiler.is_compiling() or not images.is_cuda or torch.is_grad_enabled() or self._never:
            return False
        return _get_current_dispatch_mode() is None and not torch.cuda.is_current_stream_capturing()

    def tie(self, modules: tuple[nn.Module, ...], settings: Hashable) -> None:
        """Start anew where what is read through, or its weights, or these settings, are not what they were before."""
        with self._one_at_a_time:
            if self._weights is None or (self._weights.places(), modules, settings) != self._place:
                self.forget()
                self._weights = Weights(modules)  # of the layers that there are now
                self._place = (self._weights.places(), modules, settings)

    def __call__(self, reading: Reading, *inputs: Tensor, views: int, blur: float = 0.0) -> Aimed:
        # a recording is of one way to compute: in autocast it holds the casts
        layout = tuple((given.shape, given.stride(), given.dtype, given.device) for given in inputs)
        key = (layout, views, blur, autocast_precision(), torch.get_float32_matmul_precision())
        compute = partial(reading, views=views, blur=blur)
        with self._one_at_a_time:
            recording = self._kept.get(key) or self._recorded(key, compute, inputs)
            if recording is not None:
                # what it reads and writes is in use until its last call is done, which may be on another stream
                stream = torch.cuda.current_stream(inputs[0].device)
                if self._last is not None and self._last != stream:
                    stream.wait_stream(self._last)
                self._last = stream
                return recording(inputs)
        return compute(*inputs)

    def forget(self) -> None:
        """Start anew, because the weights are elsewhere."""
        self._kept.clear()
        self._aside = self._pool = self._last = None

    def _recorded(self, key: tuple, compute: Reading, inputs: Sequence[Tensor]) -> _Recording | None:
        """A recording, kept under its key; None where there can be none."""
        if self._never:
            return None
        device = inputs[0].device
        self._aside = self._aside or torch.cuda.Stream(device)
        random = torch.cuda.default_generators[device.index or 0]
        spare, here = random.clone_state(), torch.cuda.stream(torch.cuda.current_stream(device))
        try:
            with _one_capture, here:
                recording = _Recording(compute, inputs, self._aside, self._pool)
        except RuntimeError as error:  # a network that waits for the GPU, for one
            random.graphsafe_set_state(spare)
            self.forget()
            self._never = True
            warnings.warn(f"not recorded, but launched kernel by kernel: {str(error).splitlines()[0]}", stacklevel=4)
            return None
        if len(self._kept) >= MOST_SHAPES:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = recording
        self._pool = recording.graph.pool()
        return recording


class Weights:
    """Where the weights of modules are, cheap enough to ask in every call."""

    def __init__(self, modules: tuple[nn.Module, ...]) -> None:
        parts = [part for module in modules for part in module.modules()]
        # the tables themselves, so that what is put in the place of a weight or of a layer is seen
        self._layers = [part._modules for part in parts if part._modules]
        tables = [table for part in parts for table in (part._parameters, part._buffers)]
        self._tensors = [(table, name) for table in tables for name, value in table.items() if value is not None]

    def places(self) -> tuple[Hashable, ...]:
        """Addresses and layers; others after a weight was moved, cast or exchanged, or a layer was."""
        tensors = [table.get(name) for table, name in self._tensors]
        addresses = tuple([0 if tensor is None else tensor.data_ptr() for tensor in tensors])
        return addresses, tuple([layer for table in self._layers for layer in table.values()])


class _Recording:
    """One graph, its inputs, and its output: images, and the numbers as one tensor ``(B, n)``, copied in one launch."""

    def __init__(self, reading: Reading, inputs: Sequence[Tensor], aside: torch.cuda.Stream, pool: Any) -> None:
        device = inputs[0].device
        here = torch.cuda.current_stream(device)
        # tensors of inference mode could not be written to outside of it, by a later call
        with torch.inference_mode(False), torch.no_grad(), torch.cuda.device(device), autocast_to_record():
            self.inputs = [given.clone(memory_format=torch.preserve_format) for given in inputs]
            aside.wait_stream(here)
            with torch.cuda.stream(aside):
                # what is made at the first call, such as constants and workspaces, is not recorded
                reading(*self.inputs)
                self.like = reading(*self.inputs)[:3]
            here.wait_stream(aside)
            self.graph = torch.cuda.CUDAGraph()
            with (
                torch.cuda.graph(self.graph, pool=pool, stream=aside, capture_error_mode="thread_local"),
                constants_used() as self.constants,  # the graph reads them where they are, and keeps nothing alive
            ):
                raw, pose, views, self.first = reading(*self.inputs)
                self.together = torch.cat([part.reshape(len(inputs[0]), -1) for part in _parts(raw, pose, views)], 1)

    def __call__(self, inputs: Sequence[Tensor]) -> Aimed:
        for kept, given in zip(self.inputs, inputs, strict=True):
            kept.copy_(given)
        self.graph.replay()
        return *_taken_apart(self.together.clone(), *self.like), self.first.clone()


def autocast_precision() -> torch.dtype | None:
    """What autocast computes in on CUDA; None where it is off."""
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None


def autocast_to_record() -> torch.autocast:
    """The autocast that is on, but for its cache: a cast that it remembers from before would not be recorded."""
    return torch.autocast("cuda", autocast_precision(), autocast_precision() is not None, cache_enabled=False)


def with_rows_of(aimed: Aimed, again: Aimed, rows: Tensor) -> Aimed:
    """What was aimed at, but in some rows ``(n,)`` what stands in the first n of another."""
    raw, pose, views, first = aimed
    other, other_pose, other_views, other_first = again

    def put(one: Tensor, new: Tensor) -> Tensor:
        return one.index_copy(0, rows, new[: len(rows)])

    return (
        {name: put(values, other[name]) for name, values in raw.items()},
        Pose(*(put(getattr(pose, field.name), getattr(other_pose, field.name)) for field in fields(pose))),
        Views(put(views.matrices, other_views.matrices), put(views.weights, other_views.weights)),
        put(first, other_first),
    )


def _parts(raw: dict[str, Tensor], pose: Pose, views: Views) -> list[Tensor]:
    return [*raw.values(), *(getattr(pose, field.name) for field in fields(pose)), views.matrices, views.weights]


def _taken_apart(
    together: Tensor, raw: dict[str, Tensor], pose: Pose, views: Views
) -> tuple[dict[str, Tensor], Pose, Views]:
    """Numbers ``(B, n)`` in the shapes of these."""
    shapes = [part.shape for part in _parts(raw, pose, views)]
    pieces = together.split([shape[1:].numel() for shape in shapes], 1)
    parts = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
    count = len(fields(pose))
    found = Pose(*parts[len(raw) : len(raw) + count])
    return dict(zip(raw, parts, strict=False)), found, Views(*parts[len(raw) + count :])
