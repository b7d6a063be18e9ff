"""The rectifier as one launch: recorded once for each shape of batch, and played back.

Reading the pose takes a GPU less than a millisecond, in some hundred small kernels; a host that launches them one by
one can take longer than the GPU does for the classifier. A CUDA graph launches them together. It computes on the same
weights in the same memory, so weights that are trained or loaded in place are seen; what moves them starts anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import torch
from torch import Tensor

from tokenstn.geometry import Pose
from tokenstn.posteriors import Views

MOST_SHAPES = 8  # recordings that are kept: each holds the memory of its own intermediate results

# the raw numbers of each posterior, the most likely pose, the views with their masses, the first view (B, C, H, W)
Aimed = tuple[dict[str, Tensor], Pose, Views, Tensor]
Reading = Callable[[Tensor, int, float], Aimed]


class Recorder:
    """Plays back a reading ``(images, views, blur) → Aimed``, recording it for every new shape of batch."""

    def __init__(self) -> None:
        self._kept: dict[tuple, _Recording] = {}

    def takes(self, images: Tensor) -> bool:
        """Whether a call can be played back: on CUDA, without gradients, outside of anything that traces."""
        tracing = torch.compiler.is_compiling() or (images.is_cuda and torch.cuda.is_current_stream_capturing())
        return images.is_cuda and not torch.is_grad_enabled() and not tracing

    def __call__(self, reading: Reading, images: Tensor, views: int, blur: float = 0.0) -> Aimed:
        # a recording is of one way to compute: in autocast it holds the casts
        key = (images.shape, images.stride(), images.dtype, images.device, views, blur, autocast_precision())
        if key not in self._kept:
            if len(self._kept) >= MOST_SHAPES:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = _Recording(reading, images, views, blur)
        return self._kept[key](images)

    def forget(self) -> None:
        """Start anew, because the weights are elsewhere."""
        self._kept.clear()


class _Recording:
    """One graph, its input, and its output: images, and the numbers as one tensor ``(B, n)``, copied in one launch."""

    def __init__(self, reading: Reading, images: Tensor, views: int, blur: float) -> None:
        self.images = images.clone(memory_format=torch.preserve_format)
        here, aside = torch.cuda.current_stream(images.device), torch.cuda.Stream(images.device)
        aside.wait_stream(here)
        with torch.cuda.device(images.device), autocast_to_record():
            with torch.cuda.stream(aside):
                for _ in range(2):  # what is made at the first call, such as constants and workspaces, is not recorded
                    self.like = reading(self.images, views, blur)
            here.wait_stream(aside)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                aimed = reading(self.images, views, blur)
                self.together = torch.cat([part.reshape(len(images), -1) for part in _parts(aimed)], 1)
                self.first = aimed[-1]

    def __call__(self, images: Tensor) -> Aimed:
        self.images.copy_(images)
        self.graph.replay()
        return *_taken_apart(self.together.clone(), self.like), self.first.clone()


def autocast_precision() -> torch.dtype | None:
    """What autocast computes in on CUDA; None where it is off."""
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None


def autocast_to_record() -> torch.autocast:
    """The autocast that is on, but for its cache: a cast that it remembers from before would not be recorded."""
    return torch.autocast("cuda", autocast_precision(), autocast_precision() is not None, cache_enabled=False)


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
