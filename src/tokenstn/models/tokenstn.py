"""TokenSTN: a classifier behind a token-based probabilistic spatial transformer that shares its first layers.

    image → prefix → localizer → one posterior per primitive → views → rectified views → the classifier → average

After "Geometrically Constrained and Token-Based Probabilistic Spatial Transformers" (Schmidt, Siegl, Becker, Stober).
Different from the paper by default: a circular posterior for rotation, a scale that reaches both ways, the most
probable views with their masses instead of random samples, and localization at half resolution.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor, nn

from tokenstn.geometry import Pose, Primitive, as_primitives, warp
from tokenstn.models.aim import aim, enough_views, only, weighted
from tokenstn.models.averaging import flags_of
from tokenstn.models.backbone import Backbone, LocalizationSize, resize
from tokenstn.models.blueprint import Blueprint, library_of
from tokenstn.models.call_checks import AUTO_AT_RANDOM, check_call, check_classes
from tokenstn.models.call_settings import AutoViews, CallSettings, execution_now, precision_of
from tokenstn.models.hub import Pretrained
from tokenstn.models.localizer import GRID, Localizer
from tokenstn.models.looking import look_at_all, look_at_used
from tokenstn.models.on_demand import OnDemand
from tokenstn.models.prediction import Prediction, probabilities_of
from tokenstn.models.preprocessing import Preprocessing, renormalise
from tokenstn.models.reading_again import can_be_turned, can_turn, padded, read_again
from tokenstn.models.recording import Aimed, Recorder, with_rows_of
from tokenstn.models.setting_checks import check_settings, require_closer
from tokenstn.models.thresholds import Thresholds
from tokenstn.posteriors import Posterior, RandomSource, Views, best_pose, family_of, random_poses

DEFAULT_PRIMITIVES = ("rotation", "scale")


class TokenSTN(nn.Module, Pretrained):
    """A classifier that estimates the pose of each image, rectifies it, and classifies the rectified views.

    Args:
        classifier: a timm model, a name that timm, torchvision or ``models.medvit`` knows (made untrained), or any
            module from images to logits. It is used as it is, and shared with the localizer, not copied.
        primitives: what may be corrected: any of rotation, scale, shear, translation, reflection, by name or as
            ``geometry.Primitive`` values with bounds. What is left out is exactly the identity; with none, the
            classifier is called on the images as they are.
        posterior: ``circular`` (rotation on a ring of 36 bins, the others Gaussian), ``gaussian``, ``student`` or
            ``point``.
        shared: what the localizer shares: the first n entries of ``forward_intermediates``, or the name of a layer.
        localization_size: the image size that the localizer reads: pixels of the shorter side, or a share of the
            image such as 0.4, which is a float; half when None.
        localization_tokens: how many tokens the localizer looks at along the shorter side; where there are more,
            neighbours are averaged. Fewer are learned from faster. ``models.reading`` says what ``tokenstn train``
            chooses for these three and the next.
        closer_size: at which size ``views="auto"`` reads images again whose angle is in doubt; the localizer then
            learns to read both. As ``localization_size``, and the same when None.
        rectifier: a trained TokenSTN whose localizer, with its own prefix, is put in front of ``classifier``; it brings
            primitives, posterior, shared, localization_size, localization_tokens and closer_size along.
        input_size: height and width of the images, for a classifier that does not say so itself.
        multi_label: the classes do not exclude each other: probabilities are sigmoids.
        auto: what ``views="auto"`` means; as in ``rectifier``, or ``AutoViews()``, when None.
        poses: what poses mean: ``absolute``, or ``relative`` where the rectifier was trained on images that do not come
            upright; it then makes them consistent with each other, not upright. As in ``rectifier``, or absolute, when
            None.
        preprocessing, classes, thresholds: kept in the model folder; the thresholds raise the two flags, in the calls
            that they hold for.

    >>> import timm
    >>> classifier = timm.create_model("resnet18", num_classes=10)
    >>> model = TokenSTN(classifier, primitives=("rotation", "scale")).eval()
    >>> p = model(torch.rand(2, 3, 224, 224), views=4)
    >>> p.probabilities.shape, p.views.matrices.shape, p.pose.rotation.shape
    (torch.Size([2, 10]), torch.Size([2, 4, 3, 3]), torch.Size([2]))
    """

    _recorder: Recorder | None = None
    closer_size: LocalizationSize = None  # of models that were pickled whole before there was one

    def __init__(
        self,
        classifier: nn.Module | str,
        primitives: Iterable[str | Primitive] = DEFAULT_PRIMITIVES,
        posterior: str = "circular",
        shared: int | str = 2,
        localization_size: LocalizationSize = None,
        *,
        localization_tokens: int = GRID,
        closer_size: LocalizationSize = None,
        rectifier: TokenSTN | None = None,
        input_size: tuple[int, int] | None = None,
        multi_label: bool = False,
        auto: AutoViews | None = None,
        poses: Literal["absolute", "relative"] | None = None,
        preprocessing: Preprocessing | None = None,
        classes: Sequence[str] | None = None,
        thresholds: Thresholds | None = None,
    ) -> None:
        super().__init__()
        if isinstance(classifier, str):
            classifier = Blueprint(library_of(classifier) or "timm", classifier).build()
        if rectifier is not None:
            if not isinstance(rectifier, TokenSTN) or (rectifier.encoder or rectifier.backbone).prefix is None:
                raise ValueError(
                    f"rectifier: a {type(rectifier).__name__} that reads no tokens cannot be put in front of another "
                    "classifier; give a TokenSTN with primitives"
                )
            given = (tuple(primitives), posterior, shared, localization_size, localization_tokens, closer_size)
            if given != (DEFAULT_PRIMITIVES, "circular", 2, None, GRID, None):
                raise ValueError(
                    "a rectifier brings its own primitives, posterior, shared, localization_size, localization_tokens "
                    "and closer_size: leave them out"
                )
            if poses not in (None, rectifier.poses):
                raise ValueError(f"poses={poses!r}: those of the rectifier are {rectifier.poses}; leave poses out")
            primitives, posterior = rectifier.primitives, rectifier.posterior
            localization_size, poses = rectifier.localization_size, rectifier.poses
            localization_tokens, closer_size = rectifier.localization_tokens, rectifier.closer_size
            auto = auto or rectifier.auto
        check_settings(posterior, localization_size, localization_tokens, closer_size, poses)
        self.primitives = as_primitives(primitives)
        self.posterior = posterior
        self.localization_size, self.localization_tokens = localization_size, localization_tokens
        self.closer_size = closer_size
        self.multi_label = multi_label
        self.auto = auto or AutoViews()
        self.poses: Literal["absolute", "relative"] = poses or "absolute"
        self.classes = None if classes is None else tuple(classes)
        self.thresholds = thresholds
        self._families = {primitive: family_of(posterior, primitive) for primitive in self.primitives}
        own_prefix = shared if self.primitives and rectifier is None else None
        self.backbone = Backbone(classifier, own_prefix, input_size, preprocessing)
        if own_prefix is not None and closer_size is not None:
            require_closer(self.backbone, closer_size, localization_size)
        # a rectifier from elsewhere reads the image through the first layers of the classifier it was trained with
        self.encoder: Backbone | None = None
        self.localizer: Localizer | None = None
        like = next((each for each in classifier.parameters() if each.is_floating_point()), None)
        if rectifier is not None:
            # tokens are read without gradients: what asked for some would keep distributed training waiting
            self.encoder = (rectifier.encoder or rectifier.backbone).prefix_only().requires_grad_(False)
            self.encoder = self.encoder if like is None else self.encoder.to(like)
            self.localizer = copy.deepcopy(rectifier.localizer)
        elif self.primitives:
            self.localizer = Localizer(
                self.backbone.token_width,
                {primitive.name: family.initial(primitive) for primitive, family in self._families.items()},
                localization_tokens,
            )
        if self.localizer is not None and like is not None:
            self.localizer.to(like.device)

    @property
    def classifier(self) -> nn.Module:
        """The classifier that was given."""
        return self.backbone.classifier

    @property
    def bare(self) -> bool:
        """Whether the call is the classifier's own answer and nothing else."""
        return len(self.primitives) == 0  # "not" breaks the graph of a compiled model

    @property
    def device(self) -> torch.device:
        """Where its parameters are; the CPU for a model without any, such as an exported one."""
        return next(self.parameters(), torch.zeros(())).device

    def class_names(self, outputs: int) -> tuple[str, ...]:
        """What its ``outputs`` answers are called: the classes, or numbers where these are not known."""
        return self.classes or tuple(map(str, range(outputs)))

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What the images went through, where it is known."""
        return self.backbone.preprocessing

    @property
    def thresholds(self) -> Thresholds | None:
        """What raises the two flags; may be set, and is refused if it belongs to another model."""
        return self._thresholds

    @thresholds.setter
    def thresholds(self, thresholds: Thresholds | None) -> None:
        if thresholds is not None:
            thresholds.require_fit([primitive.name for primitive in self.primitives])
        self._thresholds = thresholds

    @property
    def shared(self) -> int | str | None:
        """What the localizer shares, of the classifier that it was trained with."""
        return (self.encoder or self.backbone).shared

    @property
    def reads_closer(self) -> bool:
        """Whether images in doubt are read from closer by, which the localizer has to learn as well."""
        return self.closer_size is not None and can_turn(self._families, self.backbone.input_size)

    def forward(
        self,
        images: Tensor,
        views: int | Literal["auto"] | None = None,
        sampling: Literal["probable", "random"] = "probable",
        generator: RandomSource = None,
    ) -> Prediction:
        """Estimate the pose, rectify, classify.

        Args:
            images: ``(B, C, H, W)`` in the classifier's own normalisation.
            views: 1 looks at the most likely pose, n at the n most probable ones, each weighted by its mass; "auto"
                at as many as each image needs, and reads images again whose angle is in doubt (eager mode). None is
                "auto", or 1 in training mode. There are no more than the posteriors have: ``circular`` has one for
                every ten degrees, the sign of a reflection two, and every other belief a single one.
            sampling: ``random`` draws the views from the posteriors instead, with equal weights.
            generator: for the random views; or a function from a shape to uniform numbers.
        """
        if views is None:
            views = 1 if self.training else "auto"
        check_call(images, self.backbone.channels, views, sampling)
        if self._recorder is not None and not self.bare and sampling == "probable" and self._recorder.takes(images):
            raw, pose, found, first = self._played_back(self._recorder, images, views)
            return self._looked(images, self.beliefs(raw), pose, found, views, first)
        return self.classify(images, self.believe(images, views), views, sampling, generator)

    def record(self, on: bool = True) -> TokenSTN:
        """Launch the rectifier as one recorded CUDA graph, for each shape of batch that comes; returns the model.

        The answers are the same. It pays where the host is slower than the GPU: small batches in eager mode. Calls that
        need gradients, run elsewhere than on CUDA, draw random views or are compiled are not recorded. A recording
        starts anew where weights, layers or the sizes that are read have changed; for other changes, and for hooks,
        call it again. While one is made, at the first call with a shape, no other thread may wait for the GPU.
        """
        self._recorder = Recorder() if on else None
        return self

    def localize(self, images: Tensor, closer: bool = False) -> dict[str, Posterior]:
        """What one reading says of each primitive: ``{name: posterior}`` for images ``(B, C, H, W)``.

        closer: at ``closer_size`` instead of ``localization_size``, where there is one.
        """
        return self.beliefs(self.heads(images, closer=closer))

    def believe(self, images: Tensor, views: int | Literal["auto"] = "auto") -> dict[str, Posterior]:
        """What a call with so many views believes about each primitive: ``{name: posterior}``.

        With "auto", images whose angle is in doubt are read again, from closer by where there is a ``closer_size`` and
        at each quarter turn (``auto.doubt``), but not in training mode.
        """
        posteriors = self.localize(images)
        return self._surer(images, posteriors) if views == "auto" else posteriors

    def heads(self, images: Tensor, closer: bool = False) -> dict[str, Tensor]:
        """The numbers that a belief is made of, ``{primitive: (B, outputs)}``, as ``localize`` reads them."""
        if self.localizer is None:
            return {}
        reader = self.encoder or self.backbone
        height, width = images.shape[-2:]
        if self.encoder is not None:
            height, width = reader.own_size(height, width)
            images = renormalise(images, self.preprocessing, reader.preprocessing)
        wanted = self.closer_size if closer and self.closer_size is not None else self.localization_size
        images = resize(images, reader.reading_size(height, width, wanted))
        return self.localizer(reader.tokens(images))

    def beliefs(self, raw: dict[str, Tensor]) -> dict[str, Posterior]:
        """The posteriors that are made of the numbers of ``heads``."""
        return {primitive.name: family(primitive, raw[primitive.name]) for primitive, family in self._families.items()}

    def _surer(self, images: Tensor, posteriors: dict[str, Posterior]) -> dict[str, Posterior]:
        """The beliefs, and where the angle is in doubt those after more readings; the same ones where none is."""
        rows = self._in_doubt(images, posteriors)
        if len(rows) == 0:
            return posteriors
        before = {name: posterior.raw for name, posterior in posteriors.items()}
        after = self._read_again(images[rows], {name: raw[rows] for name, raw in before.items()})
        return self.beliefs({name: raw.index_copy(0, rows, after[name]) for name, raw in before.items()})

    def _read_again(self, images: Tensor, first: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The raw numbers after more readings of images ``(B, C, h, h)``; ``first``: those after one."""
        if self.closer_size is None:
            return read_again(self.localize, images, first)
        return read_again(partial(self.localize, closer=True), images)

    def _in_doubt(self, images: Tensor, posteriors: dict[str, Posterior]) -> Tensor:
        """Which images are to be read again, ``(n,)``."""
        turned = can_be_turned(posteriors, images) and (self.closer_size is None or self.reads_closer)
        if self.auto.doubt is None or self.training or not turned:
            return torch.empty(0, dtype=torch.long)
        return (posteriors["rotation"].entropy() > self.auto.doubt).nonzero().squeeze(1)

    def classify(
        self,
        images: Tensor,
        posteriors: dict[str, Posterior],
        views: int | Literal["auto"] = 1,
        sampling: Literal["probable", "random"] = "probable",
        generator: RandomSource = None,
    ) -> Prediction:
        """Rectify images ``(B, C, H, W)`` by what is believed about them, and classify the views."""
        if not posteriors:
            # where there is a rectifier, its answers were calibrated, and not this one of the bare classifier
            return self._classify_as_is(images, None if self.primitives else self._limits(images, views, sampling))
        if sampling == "probable":
            return self._looked(images, posteriors, *aim(posteriors, *self._choice(views)), views)
        if views == "auto":
            raise ValueError(AUTO_AT_RANDOM)
        pose = best_pose(posteriors)
        poses, masses = random_poses(posteriors, views, generator)
        chosen = weighted(poses.matrix, masses)
        probabilities, disagreement, _ = look_at_all(images, chosen, self._probabilities, self.multi_label)
        rectified = warp(images, pose.matrix, validate=False)
        limits = self._limits(images, views, sampling)
        return self._prediction(images, probabilities, disagreement, pose, rectified, chosen, posteriors, limits)

    def _choice(self, views: int | Literal["auto"]) -> tuple[int, float]:
        """How many views there are to choose from, and by how many radians the belief is widened for that."""
        return (self.auto.most, math.radians(self.auto.spread_deg)) if views == "auto" else (views, 0.0)

    def _aimed(self, images: Tensor, *first: Tensor, views: int, blur: float) -> Aimed:
        """Where to look, after one reading; where the raw numbers ``first`` of that are given, after more."""
        names = (primitive.name for primitive in self.primitives)
        before = dict(zip(names, first, strict=True)) if first else None
        raw = self.heads(images) if before is None else self._read_again(images, before)
        pose, found = aim(self.beliefs(raw), views, blur)
        return raw, pose, found, warp(images, found.matrices[:, 0], validate=False)

    def _played_back(self, recorder: Recorder, images: Tensor, views: int | Literal["auto"]) -> Aimed:
        """Where to look, from recordings: of the first reading, and for images in doubt of the further ones."""
        assert self.localizer is not None
        recorder.tie(
            ((self.encoder or self.backbone).classifier, self.localizer), (self.localization_size, self.closer_size)
        )
        count, blur = self._choice(views)
        aimed = recorder(self._aimed, images, views=count, blur=blur)
        rows = self._in_doubt(images, self.beliefs(aimed[0])) if views == "auto" else ()
        if len(rows) == 0:
            return aimed
        some = padded(rows, len(images))
        first = [raw[some] for raw in aimed[0].values()]
        return with_rows_of(aimed, recorder(self._aimed, images[some], *first, views=count, blur=blur), rows)

    def _looked(
        self,
        images: Tensor,
        posteriors: dict[str, Posterior],
        pose: Pose,
        found: Views,
        views: int | Literal["auto"],
        first: Tensor | None = None,
    ) -> Prediction:
        """Classify the most probable views ``found`` with their masses, all or as many as each image needs.

        ``first (B, C, H, W)``: the images at the first one, where that was worked out before.
        """
        if views == "auto":
            enough = enough_views(found, self.auto.mass)
            probabilities, disagreement, rectified, chosen = look_at_used(
                images, enough, self._probabilities, self.multi_label, self.auto.sure, first, self.auto.further
            )
        else:
            chosen = found if views == 1 else weighted(found.matrices, found.weights)
            probabilities, disagreement, rectified = look_at_all(
                images, chosen, self._probabilities, self.multi_label, first
            )
        limits = self._limits(images, views, "probable")
        return self._prediction(images, probabilities, disagreement, pose, rectified, chosen, posteriors, limits)

    def call_settings(
        self,
        views: int | str = "auto",
        sampling: str = "probable",
        precision: str = "float32",
        execution: str = "torch",
    ) -> CallSettings:
        """What a call with these settings is, for ``Thresholds.holds_for`` and ``why_not``."""
        if self.bare:
            return CallSettings(None, None, precision=precision, execution=execution)
        return CallSettings(views, self.auto if views == "auto" else None, sampling, precision, execution)

    def train(self, mode: bool = True) -> TokenSTN:
        """As for any module, but a classifier without a trainable parameter stays in evaluation mode."""
        super().train(mode)
        for frozen in (self.backbone, self.encoder):
            if frozen is not None and not any(parameter.requires_grad for parameter in frozen.parameters()):
                frozen.eval()
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> TokenSTN:
        """Whatever moves or casts the model goes through here."""
        if self._recorder is not None:
            self._recorder.forget()
        return super()._apply(fn, recurse)

    def _replicate_for_data_parallel(self) -> NoReturn:
        raise ValueError("DataParallel cannot copy what shares layers; use torch's DistributedDataParallel")

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles, which make recordings of their own."""
        return {**self.__dict__, "_recorder": copy.deepcopy(self._recorder)}

    def _probabilities(self, images: Tensor) -> Tensor:
        logits = self.backbone.logits(images).float()
        check_classes(logits, self.classes)
        return probabilities_of(logits, self.multi_label)

    def _limits(self, images: Tensor, views: int | Literal["auto"], sampling: str) -> Thresholds | None:
        """The thresholds, where they hold for a call."""
        limits = self.thresholds
        if limits is None or self.training:
            return None
        call = self.call_settings(views, sampling, precision_of(images), execution_now())
        return limits if limits.holds_for(call) else None

    def _classify_as_is(self, images: Tensor, limits: Thresholds | None) -> Prediction:
        pose = Pose.of(rotation=torch.zeros(len(images), device=images.device))
        probabilities = self._probabilities(images)
        disagreement = 0 * probabilities[:, 0]
        return self._prediction(images, probabilities, disagreement, pose, images, only(pose), {}, limits)

    def _prediction(
        self,
        images: Tensor,
        probabilities: Tensor,
        disagreement: Tensor,
        pose: Pose,
        rectified: Tensor,
        views: Views,
        posteriors: dict[str, Posterior],
        limits: Thresholds | None,
    ) -> Prediction:
        entropy = _by_name(posteriors, "entropy")
        pose_ambiguous, class_uncertain = flags_of(
            probabilities, disagreement, entropy, limits, self.multi_label, images
        )
        return Prediction(
            probabilities=probabilities,
            pose=pose,
            rectified=rectified,
            entropy=entropy,
            spread=_by_name(posteriors, "spread"),
            views=views,
            disagreement=disagreement,
            pose_ambiguous=pose_ambiguous,
            class_uncertain=class_uncertain,
        )


def _by_name(posteriors: dict[str, Posterior], what: Literal["entropy", "spread"]) -> Mapping[str, Tensor]:
    """A property of each posterior; in eager mode worked out only for those who look."""
    ways = {name: getattr(posterior, what) for name, posterior in posteriors.items()}
    return {name: way() for name, way in ways.items()} if torch.compiler.is_compiling() else OnDemand(ways)
