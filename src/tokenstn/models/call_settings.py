"""How a model was called: what its uncertainties, and so its two flags, depend on besides the images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

SAMPLINGS = ("probable", "random")
PRECISIONS = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}
EXECUTIONS = ("torch", "onnx")


# what files of earlier versions leave out, and what they meant
LEFT_OUT = {"sure": None, "spread_deg": 0.0, "doubt": None, "further": "bilinear"}


@dataclass(frozen=True)
class AutoViews:
    """``views="auto"``: the first view, and where its answer is not sure, as many as hold ``mass`` of the belief.

    mass: in (0, 1]. most: views at most. sure: how many times more probable the first answer has to be than the next
    one, for one view to be enough; None never stops at one. spread_deg: by how many degrees (standard deviation) the
    belief about the angle is widened for choosing and weighing views, so that answers are averaged over angles near the
    best one however sharp the belief is; views are as far apart, in whole tens of degrees. 0 weighs views by the belief
    alone. doubt: how unsure of the angle, from 0 to 1 as ``Posterior.entropy`` says, an image has to be for the
    localizer to read it again, at every quarter turn; None never does. further: how the pixels of the views after
    the first are interpolated, "bilinear" or "bicubic", which blurs an image less that was turned before.

    >>> AutoViews(mass=0.5, most=4).mass
    0.5
    """

    mass: float = 0.9
    most: int = 5
    sure: float | None = 2.5
    spread_deg: float = 20.0
    doubt: float | None = 0.5
    further: Literal["bilinear", "bicubic"] = "bicubic"

    def __post_init__(self) -> None:
        number = isinstance(self.mass, int | float) and not isinstance(self.mass, bool)
        count = isinstance(self.most, int) and not isinstance(self.most, bool)
        odds = self.sure is None or (isinstance(self.sure, int | float) and self.sure >= 1)
        angle = isinstance(self.spread_deg, int | float) and not isinstance(self.spread_deg, bool)
        doubt = self.doubt is None or (isinstance(self.doubt, int | float) and 0 <= self.doubt <= 1)
        if (
            not (number and count and odds and angle and doubt)
            or not 0 < self.mass <= 1
            or self.most < 1
            or not 0 <= self.spread_deg <= 180
            or self.further not in ("bilinear", "bicubic")
        ):
            raise ValueError(
                f"{self}: mass in (0, 1], most a number from 1, sure a number from 1 or None, "
                "spread_deg from 0 to 180, doubt from 0 to 1 or None, further bilinear or bicubic"
            )


@dataclass(frozen=True)
class CallSettings:
    """One way to call a model.

    views: "auto", with the ``auto`` that it stood for, or a number; None for a model without a rectifier, which has no
    views. sampling: "probable" or "random". precision: of the images, or of autocast where it is on. execution:
    "torch", also compiled or exported by torch, or "onnx".
    """

    views: int | str | None
    auto: AutoViews | None  # without a default: torch 2.11 does not trace one that is an object
    sampling: str = "probable"
    precision: str = "float32"
    execution: str = "torch"

    def __post_init__(self) -> None:
        count = isinstance(self.views, int) and not isinstance(self.views, bool) and self.views >= 1
        if self.views is not None and self.views != "auto" and not count:
            raise ValueError(f'views={self.views!r}: a number from 1 up, "auto", or None without a rectifier')
        if not isinstance(self.auto, AutoViews if self.views == "auto" else type(None)):
            raise ValueError(f'auto={self.auto!r}, views={self.views!r}: AutoViews with views="auto", None with others')
        for name, known in (("sampling", SAMPLINGS), ("precision", PRECISIONS.values()), ("execution", EXECUTIONS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r}: one of {', '.join(known)}")


# which devices have autocast, asked once: torch.compile does not trace the question in torch 2.11
CASTING = frozenset(kind for kind in ("cpu", "cuda", "mps", "xpu") if torch.amp.is_autocast_available(kind))


def precision_of(images: Tensor) -> str:
    """In which precision a model computes on floating point images: theirs, unless autocast is on.

    >>> precision_of(torch.zeros(1))
    'float32'
    """
    device = images.device.type
    if device in CASTING and torch.is_autocast_enabled(device):
        return PRECISIONS[torch.get_autocast_dtype(device)]
    return PRECISIONS.get(images.dtype, "another")


def execution_now() -> str:
    """What will run the model: "onnx" while one is being written, which then answers with other kernels than torch."""
    return "onnx" if torch.onnx.is_in_onnx_export() else "torch"
