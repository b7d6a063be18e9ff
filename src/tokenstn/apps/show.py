"""A sight as the two parts of the page that change: the pictures, and what there is to say about them."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment
from markupsafe import Markup

from tokenstn.apps.moves import to_png
from tokenstn.apps.polar import dial
from tokenstn.apps.sight import Sight
from tokenstn.apps.words import remarks

SHOWN = 5  # classes
TITLES = {"scale": "size", "shear": "sheared"}  # of numbers; any other has the name of its primitive


def parts(sight: Sight, turned: float | None) -> tuple[str, str]:
    """HTML of the pictures, and of the details; ``turned``: the angle in degrees that the person set."""
    filled = _filled(sight, turned)
    module = _template().make_module()
    return str(module.sights(filled)), str(module.details(filled))


def thumbnails(pictures: Sequence[bytes], names: Sequence[str]) -> str:
    """HTML of PNG files to choose from."""
    module = _template().make_module()
    images = [{"image": _data("image/png", file), "name": name} for file, name in zip(pictures, names, strict=True)]
    return str(module.thumbnails(images))


@cache
def _template() -> Any:
    page = (files("tokenstn.apps") / "page" / "demo.html").read_text(encoding="utf-8")
    return Environment(loader=DictLoader({"demo": page}), autoescape=True, trim_blocks=True).get_template("demo")


def _filled(sight: Sight, turned: float | None) -> dict[str, Any]:
    best, bare = _top(sight.probabilities), _top(sight.bare)
    rectifies = bool(sight.answer["estimated"])
    return {
        "label": best[0], "sure": _percent(best[1]), "bare_label": bare[0], "bare_sure": _percent(bare[1]),
        "same": best[0] == bare[0],
        "rectifies": rectifies,
        "absolute": sight.answer["poses"] == "absolute",
        "photo": _data("image/png", to_png(sight.photo)),
        "rectified": _data("image/png", to_png(sight.rectified)),
        "dial": _dial(sight, turned), "marked": turned is not None,
        "remarks": remarks(sight),
        "classes": _classes(sight),
        "pose": _pose(sight.answer),
        "views": sight.answer["views"],
        "json": _data("application/json", json.dumps(sight.answer, indent=2, ensure_ascii=False).encode()),
    }  # fmt: skip


def _dial(sight: Sight, turned: float | None) -> Markup | None:
    if not sight.needles:
        return None
    words = f"Belief about the rotation, best at {_degrees(math.degrees(sight.needles[0].angle))}, as a polar plot"
    marked = None if turned is None else math.radians(turned)
    return Markup(dial(sight.belief, sight.needles, marked, words))  # made of numbers alone


def _classes(sight: Sight) -> list[dict[str, Any]]:
    """The most probable ones of either answer, in the order of the rectified one."""
    ranks = [sorted(given, key=lambda name: -given[name])[:SHOWN] for given in (sight.probabilities, sight.bare)]
    chosen = list(dict.fromkeys([*ranks[0][:3], *ranks[1][:2], *ranks[0]]))[:SHOWN]
    chosen.sort(key=lambda name: -sight.probabilities[name])
    return [{"name": name, "rectified": sight.probabilities[name], "bare": sight.bare[name]} for name in chosen]


def _pose(answer: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    if answer["rotation_deg"] is not None:
        rows.append(_row("turned", _degrees(answer["rotation_deg"]), answer, "rotation", "found-rotation"))
        rows[-1]["spread"] = None if answer["rotation_spread_deg"] is None else f"{answer['rotation_spread_deg']:.0f}°"
    for name in answer["estimated"]:
        if answer.get(name) is not None:
            value = f"{answer[name]:.2f}" + ("×" if name == "scale" else "")
            rows.append(_row(TITLES.get(name, name), value.replace("-", "−"), answer, name, f"found-{name}"))
            spread = answer.get(f"{name}_spread")
            rows[-1]["spread"] = None if spread is None else f"{spread:.2f}"
    if answer["translation_px"] is not None:
        right, down = answer["translation_px"]
        value = (
            f"{abs(right):.0f} px {'right' if right >= 0 else 'left'}, {abs(down):.0f} {'down' if down >= 0 else 'up'}"
        )
        rows.append(_row("shifted", value, answer, "translation", "found-translation"))
    if answer["mirrored"] is not None:
        rows.append(_row("mirrored", "yes" if answer["mirrored"] else "no", answer, "reflection", "found-mirrored"))
    return rows


def _row(name: str, value: str, answer: dict[str, Any], primitive: str, place: str) -> dict[str, Any]:
    return {"name": name, "value": value, "spread": None, "entropy": answer["entropy"].get(primitive), "id": place}


def _top(shares: dict[str, float]) -> tuple[str, float]:
    name = max(shares, key=lambda one: shares[one])
    return name, shares[name]


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u202f%"


def _degrees(angle: float) -> str:
    """
    >>> _degrees(-12.4), _degrees(0.2), _degrees(30)
    ('−12°', '0°', '+30°')
    """
    whole = round(angle)
    return f"{whole:+d}°".replace("-", "−") if whole else "0°"


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
