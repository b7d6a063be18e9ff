"""What all rivals share: TokenSTN's call and result around any classifier, and their own loss for training.

A rival fills in ``localize`` (what it reads from the images) and, where its loss has more than the classification,
``regularisers``. Everything else is the same for all, so that a comparison compares methods and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypedDict, TypeVar, Unpack, cast

import timm
import torch
from torch import Tensor, nn

from tokenstn.baselines.belief import Belief, Sampling, poses_of
from tokenstn.baselines.likelihood import mixture_loss
from tokenstn.geometry import Primitive, warp
from tokenstn.models.averaging import average
from tokenstn.models.backbone import Backbone
from tokenstn.models.call_checks import check_call, check_classes
from tokenstn.models.prediction import Prediction, probabilities_of
from tokenstn.models.preprocessing import Preprocessing
from tokenstn.posteriors import RandomSource, Views

M = TypeVar("M", bound=nn.Module)

SEED = 0  # of the random views in a call that asks for none: equal calls then give equal answers


class CommonOptions(TypedDict, total=False):
    """What every rival takes, as TokenSTN does: see there."""

    input_size: tuple[int, int] | None
    multi_label: bool
    preprocessing: Preprocessing | None
    classes: Sequence[str] | None


class Rival(nn.Module, ABC):
    """A method around a classifier.

    Args:
        classifier: a timm model, a timm name (made untrained), or any module from images to logits. It is used as it
            is, not copied; which of its parameters are trained is decided by their ``requires_grad``.
        common: input_size, multi_label, preprocessing and classes, as in ``TokenSTN``.

    ``primitives`` are those that the method estimates, () for a method without a pose; ``localizer`` holds all that
    the method adds to the classifier, None if nothing; ``usual_views`` is what ``views="auto"`` means.

    >>> from tokenstn.baselines import create
    >>> classifier = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> sorted(create("stn", classifier).losses(torch.rand(2, 1, 12, 12), torch.tensor([0, 2])))
    ['classification']
    """

    learns: ClassVar[bool] = True  # whether training has anything to train besides the classifier
    poses: Literal["absolute", "relative"] = "absolute"
    thresholds: None = None

    def __init__(self, classifier: nn.Module | str, **common: Unpack[CommonOptions]) -> None:
        super().__init__()
        unknown = sorted(common.keys() - CommonOptions.__annotations__.keys())
        if unknown:
            raise TypeError(f"{type(self).__name__} does not take {', '.join(unknown)}")
        if isinstance(classifier, str):
            classifier = timm.create_model(classifier)
        self.backbone = Backbone(classifier, None, common.get("input_size"), common.get("preprocessing"))
        self.multi_label = common.get("multi_label", False)
        classes = common.get("classes")
        self.classes = None if classes is None else tuple(classes)
        self.primitives: tuple[Primitive, ...] = ()
        self.localizer: nn.Module | None = None
        self.usual_views = 1

    @property
    def classifier(self) -> nn.Module:
        """The classifier that was given."""
        return self.backbone.classifier

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What the images went through, where it is known."""
        return self.backbone.preprocessing

    @property
    def bare(self) -> bool:
        """Whether the call is the classifier's own answer and nothing else."""
        return False

    @property
    def channels(self) -> int:
        """Of the images, for a localizer that reads pixels."""
        channels, preprocessing = self.backbone.channels, self.preprocessing
        if channels is None and preprocessing is None:
            raise ValueError(
                f"{type(self.classifier).__name__} has no convolution that tells how many channels its images have, "
                "and this method reads pixels: pass preprocessing=Preprocessing(size, mean, std)"
            )
        return channels or len(cast(Preprocessing, preprocessing).mean)

    def forward(
        self,
        images: Tensor,
        views: int | Literal["auto"] | None = None,
        sampling: Sampling = "probable",
        generator: RandomSource = None,
    ) -> Prediction:
        """Read the images, look at them again, classify.

        Args:
            images: ``(B, C, H, W)`` in the classifier's own normalisation.
            views: how many poses to look at, where the method knows so many; "auto" is the method's own number. None
                is "auto", or 1 in training mode.
            sampling: ``random`` draws the views from the method's posterior where it has one.
            generator: for random views, also those that a method draws on its own account (TTA, P-STN); without one
                these are the same in every such call.
        """
        if views is None:
            views = 1 if self.training else "auto"
        check_call(images, self.backbone.channels, views, sampling)
        return self.classify(images, self.localize(images), views, sampling, generator)

    def believe(self, images: Tensor, views: int | Literal["auto"] = "auto") -> Belief:
        """What a call with so many views believes: a rival reads an image once."""
        return self.localize(images)

    @abstractmethod
    def localize(self, images: Tensor) -> Belief:
        """What the method reads from images ``(B, C, H, W)``."""

    def classify(
        self,
        images: Tensor,
        belief: Belief | dict[str, Any],
        views: int | Literal["auto"] = 1,
        sampling: Sampling = "probable",
        generator: RandomSource = None,
    ) -> Prediction:
        """Rectify images ``(B, C, H, W)`` by what is believed about them, and classify the views.

        ``{}`` is no belief: the answer is that of the bare classifier, on the images as they are.
        """
        if not isinstance(belief, Belief):
            upright = torch.eye(3, device=images.device).expand(len(images), 1, 3, 3)
            return self._prediction(self.backbone.logits(images).unsqueeze(1), upright)
        number = self.usual_views if views == "auto" else views
        if generator is None and sampling == "probable":
            generator = torch.Generator().manual_seed(SEED)
        matrices = belief.look(number, sampling, generator)
        logits = self._view_logits(images, matrices)
        if not self.primitives:
            return self._prediction(logits, matrices)
        rectified = warp(images, belief.best, validate=False)
        return self._prediction(
            logits, matrices, pose=poses_of(belief.best), rectified=rectified, entropy=belief.entropy,
            spread=belief.spread,
        )  # fmt: skip

    def losses(
        self,
        images: Tensor,
        labels: Tensor,
        *,
        label_smoothing: float = 0.0,
        noise: RandomSource = None,
        upright: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """The weighted terms of the method's own loss, by name; the training loss is their sum.

        Args:
            images: ``(B, C, H, W)``, normalised, augmented as the training sees fit.
            labels: ``(B,)`` class indices, all known; ``(B, classes)`` of zeros and ones for a multi-label model.
            noise: where a random pose comes from.
            upright: the same or other images ``(N, C, H, W)`` that are known to be upright, before any augmentation.
        """
        belief = self.localize(images) if self.learns else None
        if belief is None:
            logits = self.backbone.logits(images).unsqueeze(1)
        else:
            logits = self._view_logits(images, belief.look(1, "random", noise))
        terms = {"classification": mixture_loss(logits, labels, self.multi_label, label_smoothing)}
        return terms if belief is None else terms | self.regularisers(belief, upright)

    def regularisers(self, belief: Belief, upright: Tensor | None) -> dict[str, Tensor]:
        """What the method's loss has besides the classification: weighted scalars by name."""
        return {}

    def train(self, mode: bool = True) -> Rival:
        """As for any module, but a classifier without a trainable parameter stays in evaluation mode."""
        super().train(mode)
        if not any(parameter.requires_grad for parameter in self.backbone.parameters()):
            self.backbone.eval()
        return self

    def beside_classifier(self, module: M) -> M:
        """The module on the classifier's device."""
        return module.to(next(self.classifier.parameters(), torch.zeros(())).device)

    def _view_logits(self, images: Tensor, matrices: Tensor) -> Tensor:
        """Of images ``(B, C, H, W)`` at ``matrices (B, V, 3, 3)``: ``(B, V, classes)``, one view at a time."""
        answers = [self.backbone.logits(warp(images, each, validate=False)) for each in matrices.unbind(1)]
        return torch.stack(answers, 1)

    def _prediction(self, logits: Tensor, matrices: Tensor, **found: Any) -> Prediction:
        """``logits (B, V, classes)`` averaged as probabilities, with equal weights."""
        check_classes(logits, self.classes)
        weights = torch.full(matrices.shape[:2], 1 / matrices.shape[1], device=matrices.device)
        answers = probabilities_of(logits.float().flatten(0, 1), self.multi_label)
        probabilities, disagreement = average(answers, weights, self.multi_label)
        return Prediction(probabilities, views=Views(matrices, weights), disagreement=disagreement, **found)
