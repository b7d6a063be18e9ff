"""How a rectifier is trained: ours, in front of a frozen classifier or with it, and the paper's for each data set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tokenstn.geometry import OneSidedScale, Primitive, Rotation, Shear


@dataclass(frozen=True)
class Recipe:
    """The terms of the loss, their weights, and the optimisation.

    alignment: weight of the known pose that training applied. classification: weight of the negative log-likelihood of
    the averaged probabilities; it needs labels, and is left out without them. kl: weight of the KL of every posterior.
    variance: weight of the term against collapse. views, sampling: what the classification loss looks at. classifier:
    which of its parameters are trained with the rectifier. apply_poses: move the images; vary_corners: with
    other paddings as well. mirror: show mirrored images too, where an upright one stays upright and means the same in a
    mirror. rate: peak learning rate; warmup: share of the steps. head_rate: of the last layer of a classifier that is
    trained alone, None = the same. along_rate: of a classifier that is trained along, which knows its task already;
    None = the same as that of the rectifier, which begins with nothing.
    patience: stop after as many epochs without a better validation figure, and keep the best epoch; None = never.
    """

    alignment: float = 1.0
    classification: float = 0.0
    kl: float = 0.0
    variance: float = 0.0
    views: int = 1
    sampling: Literal["probable", "random"] = "probable"
    label_smoothing: float = 0.1
    posterior: str = "circular"
    classifier: Literal["frozen", "joint"] = "frozen"
    apply_poses: bool = True
    vary_corners: bool = True
    epochs: int = 60
    batch_size: int = 128
    rate: float = 1e-3
    head_rate: float | None = None
    along_rate: float | None = None
    mirror: bool = False
    weight_decay: float = 0.01
    warmup: float = 0.1
    clip: float = 1.0
    patience: int | None = None
    primitives: tuple[Primitive, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "views"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: at least 1")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience={self.patience}: at least 1 epoch, or none at all")
        for name in ("head_rate", "along_rate"):
            given = getattr(self, name)
            if given is not None and given <= 0:
                raise ValueError(f"{name}={given}: above 0, or none for the rate of the other layers")
        if self.rate <= 0 or self.clip <= 0 or not 0 <= self.warmup < 1:
            raise ValueError(f"rate={self.rate} and clip={self.clip} are above 0, warmup={self.warmup} in [0, 1)")
        if not (self.alignment or self.classification):
            raise ValueError("a recipe without alignment and without classification teaches nothing")

    def require_labels(self, labelled: bool) -> None:
        """Refuse images without labels, where there is nothing else to learn from, or a classifier to train with."""
        if not labelled and (self.classifier == "joint" or not self.alignment):
            raise ValueError("this recipe learns from labels, and the images have none; use the default recipe")


DEFAULT = Recipe()
# a classifier that is trained first, on the images as they are
CLASSIFIER = replace(DEFAULT, alignment=0.0, classification=1.0, epochs=40, batch_size=64, rate=2e-3, weight_decay=0.05)
# the same for one that starts from weights learned elsewhere: gently, but for its new head
FINE_TUNED = replace(CLASSIFIER, rate=5e-5, head_rate=1e-3)
# a rival in front of a trained classifier: on a frozen one all of them did worse (docs/comparison.md)
RIVAL = replace(DEFAULT, classifier="joint", epochs=20, batch_size=64, rate=1e-4, weight_decay=0.05)

_PAPER = Recipe(
    alignment=0.0,
    classification=1.0,
    kl=0.1,
    views=1,
    sampling="random",
    vary_corners=False,
    posterior="gaussian",
    classifier="joint",
    epochs=100,
    batch_size=64,
    rate=1e-4,
    weight_decay=0.05,
    primitives=(Rotation(), OneSidedScale(), Shear()),
)

RECIPES: dict[str, Recipe] = {
    "default": DEFAULT,
    # the classifier's second half is trained along, with labels: the best that was found for photos, with 1e-4 for both
    # (moths-best); a rectifier that learns as gently as a classifier learns too little (digits-ablation)
    "joint": replace(DEFAULT, classifier="joint", classification=1.0, batch_size=64, along_rate=1e-4),
    "paper": _PAPER,
    "paper-rotmnist": replace(
        _PAPER,
        classifier="frozen",
        primitives=(Rotation(),),
        rate=2e-4,
        weight_decay=1e-3,
        epochs=25,
        batch_size=512,
    ),
    "paper-medmnist": replace(
        _PAPER, primitives=(Rotation(), OneSidedScale()), epochs=50, batch_size=128, apply_poses=False
    ),
}


def recipe(name: str) -> Recipe:
    """A recipe by its name."""
    if name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}; there are {', '.join(RECIPES)}")
    return RECIPES[name]
