"""An exported model in parts: fit the photo, localize, look at views, classify them, join the answers, place the pose.

Tensors go from part to part by name. Each part becomes a piece of one ONNX graph; cut at these names, the graph also
gives what the localizer and the classifier say on their own (``models.onnx``). All together, in torch, are ``Whole``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tokenstn.geometry import warp
from tokenstn.inference.export_fit import Fitting
from tokenstn.models import Preprocessing, Thresholds, TokenSTN
from tokenstn.models.aim import aim, weighted
from tokenstn.models.averaging import average, flags_of
from tokenstn.models.exported import ExportInfo
from tokenstn.models.onnx import (
    BELIEFS,
    BETWEEN,
    ENTROPIES,
    FIT,
    IMAGES,
    LOGITS,
    PHOTOS,
    POSE,
    VIEW_IMAGES,
    split_beliefs,
)
from tokenstn.models.prediction import probabilities_of

# the axes of photos that may have any length, for torch.export
MOVING_PHOTOS: dict[int, Any] = {
    axis: torch.export.Dim(name) for axis, name in ((0, "batch"), (2, "height"), (3, "width"))
}


class Localizing(nn.Module):
    """images ``(B, C, h, w)`` → the numbers of all heads, ``(B, outputs)``, one primitive after the other."""

    inputs: ClassVar = (IMAGES,)

    def __init__(self, model: TokenSTN) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        raw = self.model.heads(images)
        return {BELIEFS: torch.cat([raw[primitive.name] for primitive in self.model.primitives], 1)}


class Looking(nn.Module):
    """images ``(B, C, h, w)`` and the numbers of their beliefs → what these say, and V rectified views of each."""

    inputs: ClassVar = (IMAGES, BELIEFS)

    def __init__(self, model: TokenSTN, preprocessing: Preprocessing, views: int) -> None:
        super().__init__()
        self._model = [model]  # not as a module: this part has no weights
        self.preprocessing = preprocessing
        self.views = views

    def forward(self, images: Tensor, beliefs: Tensor) -> dict[str, Tensor]:
        posteriors = self._model[0].beliefs(split_beliefs(self._model[0], beliefs))
        pose, views = aim(posteriors, self.views)
        views = weighted(views.matrices, views.weights) if self.views > 1 else views
        seen = warp(images, views.matrices, validate=False)
        entropy = {name: posterior.entropy() for name, posterior in posteriors.items()}
        return {
            **{name: getattr(pose, name) for name in posteriors},
            **{f"spread_{name}": posterior.spread() for name, posterior in posteriors.items()},
            **{f"entropy_{name}": values for name, values in entropy.items()},
            "view_matrices": views.matrices,
            "view_weights": views.weights,
            "rectified": _as_pixels(seen[:, 0], self.preprocessing),
            VIEW_IMAGES: seen.flatten(0, 1),
            POSE: pose.matrix,
            ENTROPIES: torch.stack(list(entropy.values()), 1),
        }


class Classifying(nn.Module):
    """Views ``(N, C, h, w)`` → the classifier's own outputs, ``(N, classes)``."""

    def __init__(self, model: TokenSTN) -> None:
        super().__init__()
        self.model = model
        self.inputs = (IMAGES,) if model.bare else (VIEW_IMAGES,)

    def forward(self, views: Tensor) -> dict[str, Tensor]:
        return {LOGITS: self.model.backbone.logits(views).float()}


class Joining(nn.Module):
    """Logits ``(B · V, classes)``, weights ``(B, V)`` and entropies ``(B, primitives)`` → one answer, and its flags.

    Without a rectifier there are logits ``(B, classes)`` alone. The flags also look at the images ``(B, C, h, w)``.
    """

    def __init__(self, model: TokenSTN, limits: Thresholds | None) -> None:
        super().__init__()
        self.names = [primitive.name for primitive in model.primitives]
        self.multi_label = model.multi_label
        self.limits = limits
        self.inputs = (IMAGES, LOGITS) if model.bare else (IMAGES, LOGITS, "view_weights", ENTROPIES)

    def forward(
        self, images: Tensor, logits: Tensor, weights: Tensor | None = None, entropies: Tensor | None = None
    ) -> dict[str, Tensor]:
        answers = probabilities_of(logits, self.multi_label)
        weights = torch.ones_like(answers[:, :1]) if weights is None else weights
        probabilities, disagreement = average(answers, weights, self.multi_label)
        entropy = {} if entropies is None else dict(zip(self.names, entropies.unbind(1), strict=True))
        flags = flags_of(probabilities, disagreement, entropy, self.limits, self.multi_label, images)
        names = ("pose_ambiguous", "class_uncertain")
        raised = {name: flag for name, flag in zip(names, flags, strict=True) if flag is not None}
        return {"probabilities": probabilities, "disagreement": disagreement, **raised}


class Placing(nn.Module):
    """Poses ``(B, 3, 3)`` in the network's frame and P ``(3, 3)`` → poses in the photo's frame, ``(B, 3, 3)``.

    As ``geometry.pose_in_photo``, which looks at values and so cannot be exported.
    """

    inputs: ClassVar = (POSE, FIT)

    def forward(self, pose: Tensor, fit: Tensor) -> dict[str, Tensor]:
        zoom = fit.diagonal()[:2]
        linear, centre = pose[:, :2, :2], -fit[:2, 2] / zoom
        shift = pose[:, :2, 2] / zoom + centre - (linear * centre).sum(-1)
        return {"photo_pose": torch.cat((torch.cat((linear, shift.unsqueeze(-1)), -1), pose[:, 2:]), 1)}


class Whole(nn.Module):
    """photos uint8 ``(B, C, H, W)`` → the outputs by name: all parts, one after the other."""

    def __init__(self, parts: Sequence[nn.Module], outputs: Sequence[str]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.outputs = tuple(outputs)

    def forward(self, photos: Tensor) -> dict[str, Tensor]:
        known = everything(self.parts, photos)
        return {name: known[name] for name in self.outputs}


def parts_of(model: TokenSTN, info: ExportInfo) -> list[nn.Module]:
    """The parts of a model in their order, with the preprocessing, the number of views and the flags of ``info``."""
    fitting, classifying = Fitting(info.preprocessing), Classifying(model)
    joining = Joining(model, info.thresholds)
    if info.views is None:
        return [fitting, classifying, joining]
    looking = Looking(model, info.preprocessing, info.views)
    return [fitting, Localizing(model), looking, classifying, joining, Placing()]


def everything(parts: Iterable[Any], photos: Tensor) -> dict[str, Tensor]:
    """All tensors between the parts, by name."""
    known = {PHOTOS: photos}
    for part in parts:
        known |= part(*(known[name] for name in part.inputs))
    return known


def public_outputs(model: TokenSTN, known: Mapping[str, Tensor]) -> list[str]:
    """Which of the tensors are for people, the answer first."""
    names = [name for name in known if name not in BETWEEN and not (model.bare and name == "disagreement")]
    return sorted(names, key=lambda name: name != "probabilities")


def cannot_be_traced(target: str, error: BaseException, where: str = "the whole") -> ValueError:
    """A sentence for a model that torch makes no graph of."""
    reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return ValueError(
        f"torch cannot export this model to {target}: {where} fails ({reason}); perhaps its code depends on the values "
        "of the images, which a graph cannot"
    )


def _as_pixels(images: Tensor, preprocessing: Preprocessing) -> Tensor:
    mean, std = (torch.tensor(values)[:, None, None] for values in (preprocessing.mean, preprocessing.std))
    return ((images * std + mean) * 255).round().clamp(0.0, 255.0).to(torch.uint8)
