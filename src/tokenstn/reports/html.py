"""The report as one HTML page that needs nothing else: no script, no address, its figures and pictures inside.

Names of classes and files come from strangers: the template escapes everything that is not made here.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tokenstn.evaluation.results import Evaluation, Example
from tokenstn.reports import numbers, tables, words
from tokenstn.reports.gallery import gallery
from tokenstn.reports.orbit import ORBIT_NAMES
from tokenstn.reports.plot import Plot, printable
from tokenstn.reports.svg import inline_svg


@dataclass(frozen=True)
class Tile:
    """One number at the top of the page, with what it was before; shares draw the bars."""

    title: str
    value: str
    share: float
    before: str | None = None
    before_share: float | None = None
    change: str | None = None
    better: bool = True


@dataclass(frozen=True)
class Drawing:
    """A figure as the page takes it."""

    name: str
    title: str
    caption: str
    svg: Markup
    data: str


def render(evaluation: Evaluation, examples: Sequence[Example], plots: Sequence[Plot]) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("tokenstn.reports", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": numbers.count, "percent": numbers.percent, "printable": printable}
    return environment.get_template("report.html").render(
        evaluation=evaluation,
        headline=words.headline(evaluation),
        subline=words.subline(evaluation),
        advice=words.advice(evaluation),
        movement=words.movement(evaluation),
        tiles=_tiles(evaluation),
        groups=gallery(examples),
        drawings={plot.name: _drawing(plot) for plot in plots},
        tables=tables,
        labelled=evaluation.bare.mean is not None,
        orbit_names=ORBIT_NAMES,
        entropy_names=[f"entropy_{primitive}" for primitive in evaluation.entropy],
    )


def _drawing(plot: Plot) -> Drawing:
    data = base64.b64encode(plot.csv().encode("utf-8", errors="replace")).decode()
    # the SVG comes from an XML serializer, which has escaped the names in it
    return Drawing(plot.name, plot.title, plot.caption, Markup(inline_svg(plot)), f"data:text/csv;base64,{data}")


def _tiles(evaluation: Evaluation) -> list[Tile]:
    """Three or four numbers that say it all."""
    bare, after = evaluation.bare, evaluation.rectified

    def tile(title: str, before: float | None, now: float | None) -> list[Tile]:
        if before is None or math.isnan(before) or (now is not None and math.isnan(now)):
            return []
        if after is None or now is None:
            return [Tile(title, numbers.percent(before), before)]
        change = numbers.points(now - before)
        return [Tile(title, numbers.percent(now), now, numbers.percent(before), before, change, now >= before)]

    if bare.mean is None:
        least = [min(s.consistency_by_element, default=None) if s else None for s in (bare, after)]
        sure = [sum(s.confidence_by_element) / len(s.confidence_by_element) if s else None for s in (bare, after)]
        return [
            *tile("Agrees with itself", bare.consistency, after and after.consistency),
            *tile("Least agreement at one pose", *least),
            *tile("Mean confidence over the orbit", *sure),
        ]
    return [
        *tile("Mean over the orbit", bare.mean, after and after.mean),
        *tile(f"Images {evaluation.as_they_come}", bare.upright, after and after.upright),
        *tile("Worst pose", bare.worst, after and after.worst),
        *tile("Agrees with itself", bare.consistency, after and after.consistency),
    ]
