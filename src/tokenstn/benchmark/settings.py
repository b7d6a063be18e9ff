"""From the plain values of a YAML file to the library's own: primitives, recipes, and the options of a method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from tokenstn.baselines.registry import learns, options_of_method
from tokenstn.geometry import PRIMITIVES, OneSidedScale, Primitive
from tokenstn.models.call_settings import AutoViews
from tokenstn.training.recipes import CLASSIFIER, RIVAL, Recipe, recipe

KINDS = {**PRIMITIVES, "one-sided scale": OneSidedScale}
SIZES = {"full": 1.0, "half": 0.5}  # of the images, where data of several sizes share a row
COMMON = ("input_size", "multi_label", "preprocessing", "classes", "rectifier", "thresholds", "poses")  # not a person's


def primitives_from(given: Iterable[Any]) -> tuple[Primitive, ...]:
    """Primitives by name, or as ``{name: bound}``; "one-sided scale" is the paper's, from the bound to 1.

    >>> primitives_from(["rotation", {"shear": 0.15}])
    (Rotation(bound=3.141592653589793), Shear(bound=0.15))
    """
    found = []
    for item in given:
        if isinstance(item, Primitive):
            found.append(item)
            continue
        name, bound = next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else (item, None)
        if not isinstance(name, str) or name not in KINDS:
            raise ValueError(f"unknown primitive {item!r}: a name or {{name: bound}}, of {', '.join(KINDS)}")
        found.append(KINDS[name]() if bound is None else KINDS[name](bound=bound))
    return tuple(found)


def recipe_of(settings: Mapping[str, Any], usual: Recipe | None = None) -> Recipe:
    """A recipe by its ``base`` and what differs from it.

    >>> recipe_of({"base": "paper-rotmnist", "epochs": 3}).kl
    0.1
    """
    changes = dict(settings)
    base = changes.pop("base", None)
    start = usual if base is None and usual is not None else recipe(base or "default")
    known = [field.name for field in fields(Recipe) if field.name not in ("primitives", "posterior")]
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise ValueError(f"a recipe does not have {', '.join(unknown)}; it has base, {', '.join(known)}")
    kinds = {field.name: field.type for field in fields(Recipe)}
    for name, value in changes.items():
        if str(kinds[name]) in ("int", "float") and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"recipe.{name} is {value!r}: expected a number")
    return replace(start, **changes)


def method_recipe(method: str, settings: Mapping[str, Any]) -> Recipe:
    """That of a method: where no base is named, ours for the rectifiers of this library and a rival's for the others.

    >>> method_recipe("stn", {}).classifier, method_recipe("tokenstn", {}).classifier
    ('joint', 'frozen')
    """
    return recipe_of(settings, RIVAL if learns(method) and not method.startswith("tokenstn") else None)


def classifier_recipe(settings: Mapping[str, Any]) -> Recipe:
    """That of a classifier which is trained first."""
    return recipe_of(settings, CLASSIFIER)


def options_of(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that ``tokenstn.create`` takes, from plain values; unknown ones are refused."""
    known = [name for name in options_of_method(method) if name not in COMMON]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ValueError(f"{method} does not take {', '.join(unknown)}; its options are {', '.join(known)}")
    found = dict(options)
    if "primitives" in found:
        found["primitives"] = primitives_from(found["primitives"])
    if "auto" in found:
        found["auto"] = AutoViews(**found["auto"])
    size = found.get("localization_size")
    if isinstance(size, str) and size not in SIZES:
        raise ValueError(f"localization_size {size!r}: a number of pixels, a share such as 0.4, {' or '.join(SIZES)}")
    return found


def plain_recipe(settings: Recipe) -> dict[str, Any]:
    """A recipe as JSON; the method decides about primitives and posterior.

    What came later is there where it says something, so that cells of before are known by what they were.
    """
    left_out = {"primitives", "posterior"} | ({"along_rate"} if settings.along_rate is None else set())
    return {name: value for name, value in asdict(settings).items() if name not in left_out}


def plain_primitives(primitives: Iterable[Primitive]) -> list[dict[str, float]]:
    """Primitives as JSON, which ``primitives_from`` reads back."""
    names = {kind: name for name, kind in KINDS.items()}
    return [{names[type(primitive)]: primitive.bound} for primitive in primitives]


def plain_options(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON; primitives with their bounds, so that a default bound that changes changes the hash."""
    found = options_of(method, options)
    written = {"primitives": plain_primitives(found["primitives"])} if "primitives" in found else {}
    return {**options, **written}
