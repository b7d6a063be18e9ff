"""What others build on, as text: names, signatures and fields of the package, and the options of every command.

python -m tests.trust.public_api            # show it
python -m tests.trust.public_api --accept   # a change is wanted: write public_api.txt anew, and say so in CHANGELOG
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import tokenstn
from tokenstn import cli

FROZEN = Path(__file__).with_name("public_api.txt")
ACCEPT = "python -m tests.trust.public_api --accept"
STEP = "    "


def describe() -> str:
    """The whole text, in the order of names."""
    lines = ["# Made by `python -m tests.trust.public_api --accept`. A line that changes breaks somebody's code.", ""]
    homes: dict[int, str] = {}
    for path, found in _names():
        first = homes.setdefault(id(found), path) if callable(found) else path
        lines += _of(path, found) if first == path else [f"also: {path} is {first}"]
    for verb in cli.COMMANDS:
        lines += [f"command: tokenstn {verb}", *(f"{STEP}{option}" for option in _options(verb))]
    return "\n".join(lines) + "\n"


def _names() -> Iterator[tuple[str, Any]]:
    """The package's own names, then those of its rooms."""
    found = {name: getattr(tokenstn, name) for name in sorted(tokenstn.__all__)}
    for name, value in found.items():
        if not isinstance(value, ModuleType):
            yield f"tokenstn.{name}", value
    for name, room in found.items():
        if isinstance(room, ModuleType):
            for inner in sorted(getattr(room, "__all__", ())):
                yield f"tokenstn.{name}.{inner}", getattr(room, inner)


def _of(path: str, found: Any) -> Iterator[str]:
    if inspect.isclass(found):
        yield from _of_class(path, found)
    elif callable(found):
        yield f"function: {path}{_returns(found)}"
        yield from (f"{STEP}{parameter}" for parameter in _parameters(found))
    elif isinstance(found, dict):
        yield f"dict: {path}"
        yield from (f"{STEP}{key!r}" for key in found)
    else:
        yield f"value: {path} = {found!r}"


def _of_class(path: str, kind: type) -> Iterator[str]:
    """How it is made, its fields, and what is written in our own classes: nothing that torch or others add."""
    bases = ", ".join(base.__name__ for base in kind.__bases__ if base is not object)
    yield f"class: {path}{f' ({bases})' if bases else ''}"
    for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        yield f"{STEP}field {field.name}: {_written(field.type)}{_default_of(field)}"
    if not dataclasses.is_dataclass(kind) and _is_ours(kind, "__init__"):
        yield from (f"{STEP}argument {parameter}" for parameter in _parameters(kind.__init__))
    for name in sorted(dir(kind)):
        if name.startswith("_") or not _is_ours(kind, name):
            continue
        member = inspect.getattr_static(kind, name)
        if isinstance(member, property):
            yield f"{STEP}property {name}{_returns(member.fget)}"
        elif isinstance(member, staticmethod | classmethod) or inspect.isfunction(member):
            function = getattr(member, "__func__", member)
            yield f"{STEP}method {name}{_returns(function)}"
            yield from (f"{STEP}{STEP}{parameter}" for parameter in _parameters(function))


def _is_ours(kind: type, name: str) -> bool:
    home = next((base for base in kind.__mro__ if name in vars(base)), object)
    return home.__module__.startswith("tokenstn")


def _parameters(function: Any) -> Iterator[str]:
    """One line each, with the mark of those that are given by name only."""
    by_name = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not by_name:
            by_name = True
            yield "*"
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        kind = "" if parameter.annotation is parameter.empty else f": {_written(parameter.annotation)}"
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        yield f"{mark}{parameter.name}{kind}{default}"


def _returns(function: Any) -> str:
    annotation = inspect.signature(function).return_annotation
    return "" if annotation is inspect.Signature.empty else f" -> {_written(annotation)}"


def _written(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default_of(field: dataclasses.Field) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {field.default!r}"
    return "" if field.default_factory is dataclasses.MISSING else f" = {field.default_factory.__name__}()"


def _options(verb: str) -> Iterator[str]:
    """As the parser takes them, with what the function says about them."""
    whole: Any = cli._parser(verb)
    command = whole._subcommands_action._name_parser_map[verb]
    known = inspect.signature(cli.COMMANDS[verb]).parameters
    for action in command._actions:
        if action.dest not in known:  # --help, --config and --print_config are the parser's own
            continue
        name = min(action.option_strings, key=len, default=action.dest.upper())
        several = f" (nargs {action.nargs})" if action.nargs else ""
        parameter = known[action.dest]
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        yield f"{name}: {_written(parameter.annotation)}{default}{several}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--accept"]:
        FROZEN.write_text(describe(), encoding="utf-8")
    else:
        print(describe(), end="")
