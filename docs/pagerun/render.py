"""A page with what its blocks put out."""

from __future__ import annotations

from collections.abc import Iterator

from pagerun.cells import Cell, cells_of


def render(markdown: str, outputs: list[str]) -> str:
    """The Markdown of a page with the output of every block behind it, and without the words that steer the run."""
    parts: list[str] = []
    place, said = 0, iter(outputs)
    for cell in cells_of(markdown):
        parts += [markdown[place : cell.start], _indented(_block(cell, said), cell.indent)]
        place = cell.end
    return "".join([*parts, markdown[place:]])


def _block(cell: Cell, said: Iterator[str]) -> str:
    if not cell.run:
        return f"```{{ .{cell.language} .norun }}\n{cell.code}```"
    output = next(said).strip("\n")
    code = f"```{{ .{cell.language} }}\n{cell.code}```"
    return f"{code}\n\n~~~~{{ .text .output }}\n{output}\n~~~~" if output else code


def _indented(text: str, indent: str) -> str:
    return "\n".join(f"{indent}{line}" if line else line for line in text.split("\n"))
