"""The rectifier as one launch: recorded once for each shape of batch, and played back.

Reading the pose takes a GPU less than a millisecond, in some hundred small kernels; a host that launches them one by
one can take longer than the GPU does for the classifier. A CUDA graph launches them together. It computes on the same
weights in the same memory, so weights that are trained or loaded in place are seen; what moves them starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tokenstn.geometry import Pose
from tokenstn.geometry.constants import constants_used
from tokenstn.posteriors import Views

MOST_SHAPES = 12  # recordings that are kept: each holds its input and its output

# the raw numbers of each posterior, the most likely pose, the views with their masses, the first view (B, C, H, W)
Aimed = tuple[dict[str, Tensor], Pose, Views, Tensor]
Reading = Callable[..., Aimed]


class Recorder:
    """Plays back a reading ``(*inputs, views, blur) → Aimed``, recording it for every new number and shape of inputs.

    The recordings share the memory of their intermediate results: what one of them gives is copied before the next.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple, _Recording] = {}
        self._pool: Any = None  # torch's handle of a pool of memory

    def takes(self, images: Tensor) -> bool:
        """Whether a call can be played back: on CUDA, without gradients, outside of anything that traces."""
        tracing = torch.compiler.is_compiling() or (images.is_cuda and torch.cuda.is_current_stream_capturing())
        return images.is_cuda and not torch.is_grad_enabled() and not tracing

    def __call__(self, reading: Reading, *inputs: Tensor, views: int, blur: float = 0.0) -> Aimed:
        # a recording is of one way to compute: in autocast it holds the casts
        layout = tuple((given.shape, given.stride(), given.dtype, given.device) for given in inputs)
        key = (layout, views, blur, autocast_precision())
        if key not in self._kept:
            if len(self._kept) >= MOST_SHAPES:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = _Recording(partial(reading, views=views, blur=blur), inputs, self._pool)
            self._pool = self._kept[key].graph.pool()
        return self._kept[key](inputs)

    def forget(self) -> None:
        """Start anew, because the weights are elsewhere."""
        self._kept.clear()
        self._pool = None


class _Recording:
    """One graph, its inputs, and its output: images, and the numbers as one tensor ``(B, n)``, copied in one launch."""

    def __init__(self, reading: Reading, inputs: Sequence[Tensor], pool: Any) -> None:
        self.inputs = [given.clone(memory_format=torch.preserve_format) for given in inputs]
        device = inputs[0].device
        here, aside = torch.cuda.current_stream(device), torch.cuda.Stream(device)
        aside.wait_stream(here)
        with torch.cuda.device(device), autocast_to_record():
            with torch.cuda.stream(aside):
                for _ in range(2):  # what is made at the first call, such as constants and workspaces, is not recorded
                    self.like = reading(*self.inputs)
            here.wait_stream(aside)
            self.graph = torch.cuda.CUDAGraph()
            with (
                torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"),
                constants_used() as self.constants,  # the graph reads them where they are, and keeps nothing alive
            ):
                aimed = reading(*self.inputs)
                self.together = torch.cat([part.reshape(len(inputs[0]), -1) for part in _parts(aimed)], 1)
                self.first = aimed[-1]

    def __call__(self, inputs: Sequence[Tensor]) -> Aimed:
        for kept, given in zip(self.inputs, inputs, strict=True):
            kept.copy_(given)
        self.graph.replay()
        return *_taken_apart(self.together.clone(), self.like), self.first.clone()


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


def _parts(aimed: Aimed) -> list[Tensor]:
    raw, pose, views, _ = aimed
    return [*raw.values(), *(getattr(pose, field.name) for field in fields(pose)), views.matrices, views.weights]


def _taken_apart(together: Tensor, like: Aimed) -> tuple[dict[str, Tensor], Pose, Views]:
    raw, pose, *_ = like
    shapes = [part.shape for part in _parts(like)]
    pieces = together.split([shape[1:].numel() for shape in shapes], 1)
    parts = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
    count = len(fields(pose))
    found = Pose(*parts[len(raw) : len(raw) + count])
    return dict(zip(raw, parts, strict=False)), found, Views(*parts[len(raw) + count :])
