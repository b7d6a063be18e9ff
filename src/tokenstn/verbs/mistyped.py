"""A call that the parser refuses, in one sentence for whoever typed it."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence

from tokenstn.system.documents import in_short

Parameters = Mapping[str, inspect.Parameter]
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "ImageSource": "a text",
    "ClassifierSource": "a text",
    "list[str]": "words with commas between them and no spaces",
    "list[int]": "whole numbers with commas between them and no spaces",
    "list[float]": "numbers with commas between them and no spaces",
}
_STRAY = re.compile(r"unrecognized arguments: (.+)", re.DOTALL)
_WRONG_VALUE = re.compile(r'Parser key "(\w+)":\n.*(?:Given|Got) value: (.*)', re.DOTALL)
_WRONG_KEY = re.compile(r"does not accept option '([^']+)'")
_WRONG_COMMAND = re.compile(r"invalid choice: '([^']*)'")
_REQUIRED = re.compile(r"arguments are required: (.+)")


def mistake_in_words(
    refused: Exception, given: Sequence[str], verb: str, parameters: Parameters, verbs: Iterable[str]
) -> str:
    """What is wrong with a call and what to do.

    Args:
        refused: what the parser said.
        given: the words of the call, as they were typed.
        verb: the command that is meant, with its ``parameters``; "" where there is no such command.
        verbs: all the commands.
    """
    message = str(refused)
    if found := _WRONG_COMMAND.search(message):
        names = list(verbs)
        return f"there is no command {found[1]!r}: {_near(found[1], names) or 'it is one of ' + ', '.join(names)}"
    if found := _WRONG_KEY.search(message):
        return f"there is no setting {found[1]!r}: {_near(found[1], parameters) or _see(verb)}"
    if found := _STRAY.search(message):
        return _stray(found[1].split(), given, verb, parameters)
    if found := _WRONG_VALUE.search(message):
        return _wrong_value(found[1], found[2].strip(), given, parameters) or f"{in_short(refused)}: {_see(verb)}"
    if found := _REQUIRED.search(message):
        missing = [name.rpartition(".")[2].upper() for name in found[1].split(", ")]
        return f"it needs {' and '.join(missing)}: {_see(verb)}"
    return f"{in_short(refused).removeprefix('argument ')}: {_see(verb)}"


def is_list(parameter: inspect.Parameter) -> bool:
    """Whether an option takes several values."""
    return str(parameter.annotation).startswith("list[")


def _stray(words: list[str], given: Sequence[str], verb: str, parameters: Parameters) -> str:
    """Words that belong nowhere: an option that there is not, or a value behind one that is full."""
    unknown = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if unknown is not None:
        near = _near(unknown.lstrip("-").replace("-", "_"), parameters, "--")
        return f"there is no option {unknown}: {near or _see(verb)}"
    place = max((place for place, word in enumerate(given) if word == words[0]), default=0)
    option = next((word for word in reversed(given[:place]) if word.startswith("--")), "")
    name = option[2:].partition("=")[0]
    if name in parameters and is_list(parameters[name]):
        return _as_list(name, given, parameters[name])
    if name in parameters and given[place - 1] == f"--{name}" and isinstance(parameters[name].default, bool):
        return f"--{name} {words[0]}: give {KINDS['bool']}"
    wanted = [name.upper() for name, parameter in parameters.items() if parameter.default is parameter.empty]
    takes = f"tokenstn {verb} takes {' '.join(wanted)} and options" if wanted else _see(verb)
    return f"{words[0]!r} is one word too many: {takes}; what has a space in it goes in quotes"


def _wrong_value(name: str, value: str, given: Sequence[str], parameters: Parameters) -> str | None:
    """A value of another kind than the option's; None where nothing is known of it."""
    if name not in parameters:
        return None
    split_by_the_shell = value.startswith("[") and not value.endswith("]")
    if is_list(parameters[name]) and split_by_the_shell and _place_of(name, given) is not None:
        return _as_list(name, given, parameters[name])
    kinds = [_kind(part) for part in str(parameters[name].annotation).split(" | ") if part != "None"]
    shown = value if len(value) <= 60 else f"{value[:60]}…"
    called = name.upper() if parameters[name].default is inspect.Parameter.empty else f"--{name}"
    return f"{called} {shown}: give {' or '.join(dict.fromkeys(kinds))}"


def _as_list(name: str, given: Sequence[str], parameter: inspect.Parameter) -> str:
    """How a list is written, with the first two of the words that were meant."""
    place = _place_of(name, given) or 0
    behind = [given[place].partition("=")[2], *given[place + 1 :]]
    meant = [part for word in behind for part in word.strip("[],").split(",") if part][:2]
    kind = KINDS[str(parameter.annotation).split(" | ")[0]]
    return f"--{name} takes {kind}, such as --{name} {','.join(meant)}"


def _place_of(name: str, given: Sequence[str]) -> int | None:
    """Where an option stands in a call; None for one that comes from a file of settings."""
    return next((place for place, word in enumerate(given) if word.partition("=")[0] == f"--{name}"), None)


def _kind(annotation: str) -> str:
    """A part of an annotation for people.

    >>> _kind("Literal['auto', 'yes', 'no']"), _kind("int")
    ('auto, yes or no', 'a whole number')
    """
    if annotation.startswith("Literal["):
        *first, last = ast.literal_eval(annotation.removeprefix("Literal"))
        return f"{', '.join(first)} or {last}" if first else str(last)
    return KINDS.get(annotation, annotation)


def _near(name: str, known: Iterable[str], dashes: str = "") -> str:
    found = difflib.get_close_matches(name.lower(), list(known), 1)
    return f"did you mean {dashes}{found[0]}?" if found else ""


def _see(verb: str) -> str:
    return f"tokenstn {verb} --help names the options" if verb else "see tokenstn --help"
