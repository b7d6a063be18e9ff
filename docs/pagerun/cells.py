"""The code of a page: its fenced blocks of Python and shell, in order.

Words after the language say what is asked of a block, and are not shown:

    ```sh                    run it; it must succeed
    ```sh norun              show it only, for what this machine cannot do (a GPU, a download)
    ```sh fails              run it; it must fail, and what it says is shown
    ```sh until=ready        start it, go on when it has said that word, and end it with the page (a server)
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

LANGUAGES = ("python", "sh")
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>python|sh)\b(?P<words>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Cell:
    """One block. line: where it begins on its page, from 1. start, end: of its text on the page, fences included."""

    language: str
    code: str
    line: int
    indent: str
    start: int
    end: int
    run: bool = True
    fails: bool = False
    until: str | None = None


def cells_of(markdown: str) -> list[Cell]:
    """The blocks of a page in their order.

    >>> [(cell.language, cell.run) for cell in cells_of("```python\\n1 + 1\\n```\\n\\n```sh norun\\nmake\\n```\\n")]
    [('python', True), ('sh', False)]
    """
    return [_cell(found, markdown) for found in FENCE.finditer(markdown)]


def _cell(found: re.Match[str], markdown: str) -> Cell:
    line = markdown.count("\n", 0, found.start()) + 1
    words = shlex.split(found["words"])
    until = next((word.removeprefix("until=") for word in words if word.startswith("until=")), None)
    unknown = [word for word in words if word not in ("norun", "fails") and not word.startswith("until=")]
    if unknown:
        raise ValueError(f"line {line}: a block may be norun, fails or until=WORD, not {' '.join(unknown)}")
    if until is not None and found["language"] != "sh":
        raise ValueError(f"line {line}: until=WORD is for commands, sh")
    indent = found["indent"]
    code = "".join(row.removeprefix(indent) for row in found["code"].splitlines(keepends=True))
    return Cell(
        found["language"], code, line, indent, found.start(), found.end(), "norun" not in words, "fails" in words, until
    )
