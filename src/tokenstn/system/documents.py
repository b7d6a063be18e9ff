"""JSON and YAML from files that somebody else may have written: plain values, or a sentence why there are none.

Nothing is made but dicts, lists, text, numbers and dates. What is nested deeper than any document of ours, repeats its
parts without end (YAML may name a part and write the name instead), or is larger than ``most`` bytes is refused before
it fills the memory.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 2**28  # of a document of ours
DEEPEST = 100  # levels of nesting
SHOWN = 100  # letters of a value that is wrong
LONGEST = 400  # letters of what a library says about a file


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """The value in a JSON file.

    Raises:
        OSError: it is not there, or may not be read.
        ValueError: it is not JSON, not UTF-8, too large or nested too deeply; the message begins with the path.
    """
    return parsed_json(_content(path, most), str(path))


def parsed_json(text: str | bytes, name: str) -> Any:
    """The value in a JSON text; ``name`` is for the error."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"{name} is not valid JSON: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{name} is not valid JSON: {error}") from error
    if not _fits(value, [len(text) + 1]):
        raise ValueError(f"{name} is not valid JSON: it is nested too deeply")
    return value


def read_yaml(path: Path, most: int = MOST_BYTES) -> Any:
    """The value in a YAML file, by the same rules as ``read_json``."""
    content = _content(path, most)
    try:
        value = yaml.safe_load(content.decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{path} is not YAML: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError) as error:  # a date that is none, …
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not _fits(value, [len(content) + 1]):
        raise ValueError(f"{path} is nested too deeply, or repeats its parts without end: write them out")
    return value


def in_short(error: BaseException) -> str:
    """What an error says, in one line that can be shown, however much of a broken file it quotes.

    >>> in_short(ValueError("bad chunk\\n\\x00\\x1b[31m"))
    'bad chunk [31m'
    """
    said = "".join(letter if letter.isprintable() else " " for letter in str(error)[: 2 * LONGEST])
    said = " ".join(said.split()) or type(error).__name__
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}…"


def shown(value: Any) -> str:
    """A value for a sentence about it, however long it is.

    >>> shown("x" * 200)[-5:]
    'xxxx…'
    """
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _content(path: Path, most: int) -> bytes:
    size = path.stat().st_size
    if size > most:
        raise ValueError(f"{path} has {size:,} bytes, and at most {most:,} are read: it is no such file")
    return path.read_bytes()


def _fits(value: Any, left: list[int], depth: int = 0) -> bool:
    """Whether a value, counted with all its repetitions, has no more parts than are ``left``, and is not too deep."""
    left[0] -= 1
    if left[0] < 0 or depth > DEEPEST:
        return False
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(_fits(item, left, depth + 1) for item in inside)
