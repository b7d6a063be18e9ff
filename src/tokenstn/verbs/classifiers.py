"""Which classifier a person means: a model folder, a timm name, a module, or none for small images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import timm
from torch import nn

import tokenstn
from tokenstn.data import ImageTable
from tokenstn.evaluation.matching import first_difference, in_order_of, some_of
from tokenstn.models import Preprocessing, TokenSTN
from tokenstn.models.bare import without_rectifier
from tokenstn.models.blueprint import Blueprint, library_of
from tokenstn.models.pretrained import fetched, from_weights, size_argument
from tokenstn.training.small_vit import small_vit
from tokenstn.verbs.models import outputs_of, require_outputs
from tokenstn.verbs.sources import ClassifierSource

OWN_SIZE = (224, 224)


def find_classifier(
    classifier: ClassifierSource | None,
    table: ImageTable,
    pretrained: bool = True,
    weights: str | None = None,
    input_size: int | None = None,
    labels: bool = True,
) -> tuple[TokenSTN, bool]:
    """A bare model for the images of a table, and whether it is ready as it is or has to be trained on them first.

    ``weights`` and ``input_size`` go with a timm name: a file instead of what would be fetched, and the image side.
    A trained classifier may have the table's classes in another order (``matching.in_order_of``), and without
    ``labels`` know others.
    """
    named = isinstance(classifier, str) and timm.is_model(classifier) and not Path(classifier).is_dir()
    if not named and (weights is not None or input_size is not None):
        raise ValueError("--weights and --input_size go with the timm name of a classifier, --classifier")
    ready = isinstance(classifier, nn.Module) or (classifier is not None and Path(classifier).is_dir())
    if not ready and len(table.classes) == 1 and not table.multi_label:
        raise ValueError(
            f"{table.name} has one class, {table.classes[0]!r}, and there is nothing to tell apart: name the folder "
            "that holds a folder for each class, or a trained classifier with --classifier"
        )
    if classifier is None:
        return small_vit(table), False
    if isinstance(classifier, nn.Module):
        return _from_module(classifier, table, labels), True
    if Path(classifier).is_dir():
        return _bare(tokenstn.load(classifier), table, classifier, labels), True
    if library_of(classifier) == "tokenstn":
        return _own(classifier, table), False
    if not timm.is_model(classifier):
        raise ValueError(
            f"--classifier {classifier}: neither a model folder nor a timm name; timm.list_models() names them"
        )
    if not table.classes:  # nothing to train it with: the classes are those of its weights
        if weights is not None:
            raise ValueError(
                f"{table.name} has no labels to train a new head with: tokenstn convert {weights} --arch {classifier} "
                "makes a model folder of a classifier that is trained already"
            )
        return TokenSTN(_network(classifier, pretrained), primitives=()), True
    if weights is not None:
        network = from_weights(classifier, weights, len(table.classes), input_size, table.channels)
    else:
        shape = {"num_classes": len(table.classes), "in_chans": table.channels}
        network = _network(classifier, pretrained, **shape, **size_argument(classifier, input_size))
    side = None if input_size is None else (input_size, input_size)
    model = TokenSTN(network, primitives=(), classes=table.classes, multi_label=table.multi_label, input_size=side)
    return model, False


def _network(name: str, pretrained: bool, **arguments: Any) -> nn.Module:
    if not pretrained:
        return timm.create_model(name, pretrained=False, **arguments)
    remedy = "connect to the internet once, give a file with --weights, or begin without: --pretrained=false"
    return fetched(name, remedy, **arguments)


def _own(name: str, table: ImageTable) -> TokenSTN:
    """A network of ours, such as medvit_small, untrained, for images of the size that it was made for."""
    if not table.classes:
        raise ValueError(f"{name} has no weights, and {table.name} no labels to train it with")
    size = {"num_classes": len(table.classes), "in_chans": table.channels}
    grey = Preprocessing(size=OWN_SIZE, mean=(0.5,) * table.channels, std=(0.5,) * table.channels)
    network = Blueprint("tokenstn", name, size).build()
    return TokenSTN(
        network,
        primitives=(),
        classes=table.classes,
        multi_label=table.multi_label,
        preprocessing=grey,
        input_size=OWN_SIZE,
    )


def _from_module(classifier: nn.Module, table: ImageTable, labels: bool) -> TokenSTN:
    """A trained module from Python; a TokenSTN brings along how its images are prepared."""
    if isinstance(classifier, TokenSTN):
        return _bare(classifier, table, "the classifier", labels)
    model = TokenSTN(classifier, primitives=(), multi_label=labels and table.multi_label)
    if model.preprocessing is None:
        raise ValueError(
            f"how images for this {type(classifier).__name__} are prepared is not known: give it as "
            "tokenstn.TokenSTN(classifier, primitives=(), preprocessing=tokenstn.Preprocessing(size, mean, std))"
        )
    return _named_by(table, model, "the classifier") if labels else model


def _bare(model: TokenSTN, table: ImageTable, name: str, labels: bool) -> TokenSTN:
    """The classifier of a model, without a rectifier that it may have."""
    bare = without_rectifier(model)
    if not labels:
        bare.classes = model.classes
        return bare
    if table.classes and model.classes is not None and in_order_of(model.classes, table).classes != model.classes:
        raise ValueError(
            f"{name} knows the classes {some_of(model.classes)}, {table.name} has {some_of(table.classes)}: "
            f"{first_difference(model.classes, table.classes)}; they must be the same, or leave the labels away with "
            "--labels=false"
        )
    if table.classes and model.multi_label != table.multi_label:
        kinds = {True: "several labels for each image", False: "one label for each image"}
        raise ValueError(f"{name} gives {kinds[model.multi_label]}, {table.name} has {kinds[table.multi_label]}")
    bare.classes = model.classes
    return bare if bare.classes else _named_by(table, bare, name)


def _named_by(table: ImageTable, model: TokenSTN, name: str) -> TokenSTN:
    """A model that does not know what its classes are called, with the names of a table that has as many."""
    require_outputs(name, outputs_of(model), table)
    model.classes = table.classes or None
    return model
