"""The model card: what a person should know before using a model, as ``README.md`` of its folder.

Its head is the YAML that model hubs read. The rest says what the model was measured on and how it did, which poses it
corrects and how far, what its flags promise, and what it is not for.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

import tokenstn
from tokenstn.system.documents import read_json
from tokenstn.system.files import write_text

if TYPE_CHECKING:
    from tokenstn.geometry import Primitive
    from tokenstn.models.tokenstn import TokenSTN

CARD = "README.md"
MADE = "<!-- written by tokenstn; take this line away to keep your own text when the model is saved again -->"
RUN, METRICS = "tokenstn.run/1", "metrics.json"
SHOWN = 20  # classes that are named
NOT_FOR = (
    "It is **not a medical device**: it must not be used for diagnosis, treatment or any decision about a person's "
    "health. Nor is it meant for decisions in which a wrong answer harms someone, unless a person checks them."
)


def model_card(model: TokenSTN, name: str = "A TokenSTN model", metrics: Mapping[str, Any] | None = None) -> ModelCard:
    """The card of a model; ``metrics`` is the ``metrics.json`` of the training run, where there is one."""
    evaluation = _evaluation(metrics, rectified=bool(model.primitives))
    head = ModelCardData(
        library_name="tokenstn",
        pipeline_tag="image-classification",
        tags=["image-classification", "tokenstn", *(f"corrects-{primitive.name}" for primitive in model.primitives)],
        model_name=name if evaluation else None,
        eval_results=list(_results(evaluation)) if evaluation else None,
    )
    sections = {
        "": _what(model),
        "Use": _use(),
        "Poses": _poses(model),
        "When not to trust it": _flags(model),
        "Data and metrics": _metrics(evaluation),
        "Limits": _limits(model, evaluation),
        "What it is for": f"Sorting and searching images like those that it was trained on. {NOT_FOR}",
    }
    body = "\n\n".join(f"## {title}\n\n{text}" if title else text for title, text in sections.items())
    return ModelCard(f"---\n{head.to_yaml()}\n---\n\n# {_text(name)}\n\n{MADE}\n\n{body}\n")


def write_card(
    model: TokenSTN, folder: Path, name: str | None = None, metrics: Mapping[str, Any] | None = None
) -> None:
    """Put the card into a model folder. One that a person has taken over, by removing the remark in it, stays.

    Args:
        name: of the model; that of the folder, or of the run around it, when None.
        metrics: the ``metrics.json`` of its run; what lies in the run folder around it when None.
    """
    path = folder / CARD
    if path.exists() and MADE not in path.read_text(encoding="utf-8", errors="replace"):
        return
    card = model_card(model, name or _name_of(folder), metrics or run_metrics(folder) or model.run_metrics)
    write_text(path, str(card))


def run_metrics(folder: Path) -> dict[str, Any] | None:
    """What the run folder around a model folder knows about it; None where there is none."""
    try:
        found = read_json(folder.parent / METRICS)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("schema") == RUN else None


def _name_of(folder: Path) -> str:
    whole = folder.resolve()
    return whole.parent.name if whole.name == "model" else whole.name


def _what(model: TokenSTN) -> str:
    network = type(model.classifier).__name__
    parameters = sum(parameter.numel() for parameter in model.classifier.parameters()) / 1e6
    height, width = model.backbone.input_size
    said = f"An image classifier ({network}, {parameters:.1f} M parameters, {height}×{width} pixels)"
    if model.primitives:
        names = " and ".join(primitive.name for primitive in model.primitives)
        said += f" behind a rectifier, which finds {names} of what is seen in each image and corrects them first"
    said += f". Made with tokenstn {tokenstn.__version__}."
    if model.classes:
        shown = ", ".join(_code(name) for name in model.classes[:SHOWN])
        more = f" and {len(model.classes) - SHOWN:,} more" if len(model.classes) > SHOWN else ""
        several = ", of which an image may have several" if model.multi_label else ""
        said += f"\n\n{len(model.classes):,} classes{several}: {shown}{more}."
    return said


def _use() -> str:
    return """```python
import tokenstn

model = tokenstn.TokenSTN.from_pretrained("this folder")
```

```sh
tokenstn predict FOLDER photos/ --out predictions/
tokenstn rectify FOLDER photos/ --out upright/
```

`config.json` and `model.safetensors` hold no code and no pickle."""


def _poses(model: TokenSTN) -> str:
    if not model.primitives:
        return "None are corrected: this is the classifier alone."
    rows = "\n".join(f"| {primitive.name} | {_range(primitive)} |" for primitive in model.primitives)
    meaning = (
        "Poses are absolute: they say how far from upright an object is."
        if model.poses == "absolute"
        else "Poses are **relative**: the training images did not come upright, so that images are made consistent "
        "with each other, not upright."
    )
    return f"| corrected | range |\n|---|---|\n{rows}\n\nWhat lies outside is not corrected. {meaning}"


def _range(primitive: Primitive) -> str:
    low, high = primitive.range
    return {
        "rotation": f"{math.degrees(low):.0f}° to {math.degrees(high):.0f}°, clockwise",
        "scale": f"{low:.2f} to {high:.2f} times",
        "shear": f"{low:.2f} to {high:.2f}, sideways for each unit of height",
        "translation": f"up to {50 * high:.0f} % of the shorter side, in each direction",
        "reflection": "mirrored or not",
    }.get(primitive.name, f"{low:.2f} to {high:.2f}")


def _flags(model: TokenSTN) -> str:
    if model.thresholds is None:
        return "There are no thresholds in this model, so that it raises no flags."
    said = "\n".join(f"- {sentence}" for sentence in model.thresholds.sentences)
    views = model.thresholds.settings.views
    called = "" if views is None else f"They are given in calls with `views={views!r}` and no others."
    return f"{said}\n\n{called}".rstrip()


def _metrics(evaluation: Mapping[str, Any] | None) -> str:
    if evaluation is None:
        return (
            "Not known: this model was saved without the run that it comes from. Measure it with `tokenstn evaluate`."
        )
    split = f"the {evaluation['split']} images of " if evaluation.get("split") else ""
    intro = (
        f"{evaluation['images']:,} images, {split}{_text(str(evaluation['data']))}, each under "
        f"{len(evaluation['elements'])} elements of the group {evaluation['group']}."
    )
    columns = {"upright": "as they come", "mean": "mean over the group", "worst": "worst", "consistency": "same answer"}
    lines = ["| accuracy | " + " | ".join(columns.values()) + " |", "|---|" + "---|" * len(columns)]
    for title, scores in (("the classifier alone", evaluation["bare"]), ("rectified", evaluation.get("rectified"))):
        if scores is not None:
            cells = ("–" if scores.get(key) is None else f"{scores[key]:.1%}" for key in columns)
            lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return intro + "\n\n" + "\n".join(lines)


def _limits(model: TokenSTN, evaluation: Mapping[str, Any] | None) -> str:
    said = [
        "Images of another kind than those it was measured on, and poses outside of the ranges, get answers all the "
        "same.",
        "Where orientation is the label, such as in left and right hands, a rectifier takes it away.",
    ]
    said += [_text(str(warning)) for warning in (evaluation or {}).get("warnings", ())]
    if model.primitives and model.poses == "relative":
        said.append("No image tells it what is upright.")
    return "\n".join(f"- {sentence}" for sentence in said)


def _code(name: str) -> str:
    """A stranger's name as code in Markdown, which takes nothing in it for markup, in one line.

    >>> _code("a moth"), _code("6`<b>")
    ('`a moth`', '`` 6`<b> ``')
    """
    longest = max((len(run) for run in re.findall("`+", name)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{' '.join(name.splitlines())}{space}{fence}"


def _text(name: str) -> str:
    """A stranger's name as text in Markdown, without HTML."""
    return html.escape(" ".join(name.splitlines()), quote=False)


def _evaluation(metrics: Mapping[str, Any] | None, rectified: bool) -> dict[str, Any] | None:
    """What was measured, without the rectifier where a run has kept the classifier alone."""
    found = (metrics or {}).get("evaluation")
    needed = {"images", "data", "group", "elements", "bare"}
    if not isinstance(found, Mapping) or not needed <= found.keys() or not _is_sound(found):
        return None
    return dict(found) if rectified else {**found, "rectified": None}


def _is_sound(found: Mapping[str, Any]) -> bool:
    """Whether what a card tells is of the kinds that it tells, in a file that somebody may have edited."""
    judged = [found["bare"], *([] if found.get("rectified") is None else [found["rectified"]])]
    keys = ("upright", "mean", "worst", "consistency")
    return (
        all(isinstance(scores, Mapping) and all(_is_share(scores.get(key)) for key in keys) for scores in judged)
        and isinstance(found["images"], int)
        and isinstance(found["elements"], list)
        and isinstance(found.get("warnings", []), list)
    )


def _is_share(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and 0 <= value <= 1)


def _results(evaluation: Mapping[str, Any]) -> Iterator[EvalResult]:
    """The figures that a hub lists."""
    scores = evaluation.get("rectified") or evaluation["bare"]
    for key, title in (("upright", "Accuracy as they come"), ("mean", f"Accuracy over {evaluation['group']}")):
        if scores.get(key) is not None:
            yield EvalResult(
                task_type="image-classification",
                dataset_type="imagefolder",
                dataset_name=str(evaluation["data"]),
                metric_type="accuracy",
                metric_name=title,
                metric_value=round(float(scores[key]), 4),
            )
