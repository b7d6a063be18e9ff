"""The examples in docstrings as code on the pages of the API, and Sphinx's roles as plain code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?!\s*\n|\s*$).*)*", re.MULTILINE)
ROLE = re.compile(r":(?:meth|class|func|mod):(`[^`]+`)")


class Doctests(Extension):
    """Puts fences around examples: without them Markdown takes ``>>>`` for quotations."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for every module, class, function and attribute that is read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(ROLE.sub(r"\1", obj.docstring.value))


def fenced(text: str) -> str:
    """A docstring with its examples in fences.

    >>> print(fenced("Adds.\\n\\n>>> 1 + 1\\n2"))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    return EXAMPLE.sub(lambda found: f"{found['indent']}```pycon\n{found[0]}\n{found['indent']}```", text)
