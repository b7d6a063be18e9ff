"""A figure as SVG: small, with real text, in the colours of the page that it stands in."""

from __future__ import annotations

import io
import re
import warnings
from xml.etree import ElementTree

import matplotlib

from tokenstn.reports.plot import BARE, BROKEN, FIXED, INK, RECTIFIED, UNCHANGED, Plot, look

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
LARGEST = 1.2  # of its size: a figure fills its card, but its text does not outgrow that of the page
_COORDINATE = re.compile(r"-?\d+\.\d{3,}")
# the page gives these another lightness when it is dark
_PAGE_COLORS = {
    BARE: "var(--bare)",
    RECTIFIED: "var(--rectified)",
    FIXED: "var(--fixed)",
    BROKEN: "var(--broken)",
    UNCHANGED: "var(--unchanged)",
}
_ALONE = (
    ":root{color:#1c2128;color-scheme:light dark}"
    "@media (prefers-color-scheme:dark){:root{color:#e6e8eb}}"
    "*{stroke-linejoin:round}"
)


def inline_svg(plot: Plot) -> str:
    """For a place inside an HTML page: no name space, ids that no other figure has, the page's own colours."""
    root = _tree(plot, _PAGE_COLORS)
    root.set("role", "img")
    root.set("aria-label", f"{plot.title}. {plot.caption}".strip())
    # the page says how wide; the figure knows only its shape
    root.set("style", f"max-width:{float(root.attrib.pop('width').removesuffix('pt')) * 4 / 3 * LARGEST:.0f}px")
    del root.attrib["height"]
    return ElementTree.tostring(root, encoding="unicode")


def standalone_svg(plot: Plot) -> str:
    """For a file of its own: black on light, and light where the reader's system is dark."""
    root = _tree(plot, {})
    root.set("xmlns", "http://www.w3.org/2000/svg")
    style = ElementTree.Element("style")
    style.text = _ALONE
    title = ElementTree.Element("title")
    title.text = plot.title
    root[:0] = [title, style]
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _tree(plot: Plot, colors: dict[str, str]) -> ElementTree.Element:
    """What matplotlib writes, without name spaces, metadata and style sheet."""
    text = io.StringIO()
    # the salt makes ids the same in every run; metadata would hold a date and addresses
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with look(), matplotlib.rc_context({"svg.hashsalt": plot.name}), warnings.catch_warnings():
        # the reader's browser has the glyphs that matplotlib's own font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        plot.figure.savefig(text, format="svg", metadata=nothing)
    root = ElementTree.fromstring(text.getvalue())
    colors = {INK: "currentColor", **colors}
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        attributes = element.attrib
        if "id" in attributes:
            attributes["id"] = f"{plot.name}-{attributes['id']}"
        if _LINK in attributes:
            attributes["href"] = f"#{plot.name}-{attributes.pop(_LINK).removeprefix('#')}"
        for key in ("d", "x", "y", "transform", "points"):
            if key in attributes:
                attributes[key] = _COORDINATE.sub(lambda number: f"{float(number[0]):.2f}", attributes[key])
        for key in ("style", "clip-path"):
            if key in attributes:
                attributes[key] = _restyle(attributes[key], plot.name, colors)
        if element.text is not None and not element.text.strip():
            element.text = None
        element.tail = None
    for parent in root.findall(".//style/.."):
        for style in parent.findall("style"):
            parent.remove(style)
    return root


def _restyle(style: str, name: str, colors: dict[str, str]) -> str:
    style = style.replace("url(#", f"url(#{name}-")
    for color, meaning in colors.items():
        style = style.replace(color, meaning)
    return re.sub(r"font-family:[^;]*", "font-family: system-ui, sans-serif", style)
