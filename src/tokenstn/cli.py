"""The command line: parses and prints, nothing else. Every command is the function of the same name in ``verbs``.

Exit codes: 0 done; 1 something broke, such as a process that the command needs; 2 refused with a sentence: a mistake in
the call, in what it was given, or in where it should write; 130 interrupted (Ctrl-C); 141 nobody reads what it prints
(SIGPIPE); 143 terminated (SIGTERM).
"""

from __future__ import annotations

import inspect
import io
import os
import sys
import warnings
from argparse import RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO, get_type_hints

from jsonargparse import ArgumentError, ArgumentParser, DefaultHelpFormatter, Namespace

import tokenstn
from tokenstn import verbs
from tokenstn.system.documents import read_yaml
from tokenstn.system.processes import DeadProcessError
from tokenstn.system.stopping import Stopped, terminated_like_interrupted
from tokenstn.verbs.mistyped import is_list, mistake_in_words
from tokenstn.verbs.telemetry import no_telemetry

COMMANDS: dict[str, Callable] = {
    "diagnose": verbs.diagnose,
    "convert": verbs.convert,
    "train": verbs.train,
    "evaluate": verbs.evaluate,
    "compare": verbs.compare,
    "bench": verbs.bench,
    "predict": verbs.predict,
    "rectify": verbs.rectify,
    "export": verbs.export,
    "serve": verbs.serve,
    "demo": verbs.demo,
}
EXIT_CODES = (
    "exit codes:\n"
    "    0 done, 1 something broke, 2 refused (the sentence says why), 130 interrupted (Ctrl-C),\n"
    "    141 nobody reads what it prints (SIGPIPE), 143 terminated (SIGTERM)\n"
    "    Stopped and called again, predict, rectify, bench and train --resume=true go on where they were."
)
# an argument by its place that may be left out, which the parser does not see from a function
PERHAPS = {
    "bench": ("experiment", "the name of an experiment, such as rotmnist, or a YAML file; own-data when left out"),
    "demo": ("model", "a run folder, a model folder or an exported .onnx file; a small one for digits when left out"),
}
# arguments that take several words
SEVERAL = {"compare": ("runs", "two or more folders that tokenstn evaluate or tokenstn train wrote")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    no_telemetry()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a letter that it has not would end hours of work
    try:
        try:
            return _run(list(sys.argv[1:] if arguments is None else arguments) or ["--help"])
        finally:
            _flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (BrokenPipeError, SystemExit) as ended:
        broken = ended if isinstance(ended, BrokenPipeError) else ended.__context__  # rich turns one into the other
        if not isinstance(broken, BrokenPipeError):
            raise
        _drop_what_is_left(sys.stdout)
        try:
            print("tokenstn: nobody reads what it prints any more, so that it ended", file=sys.stderr, flush=True)
        except BrokenPipeError:
            _drop_what_is_left(sys.stderr)
        return 141


def _flush() -> None:
    """Print what is still to be printed, while there is somebody to say that it could not be."""
    if sys.stdout is None:  # it was closed before this began
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as full:
        _drop_what_is_left(sys.stdout)
        print(f"tokenstn: what it says cannot be written ({full})", file=sys.stderr)
        raise SystemExit(2) from None


def _drop_what_is_left(stream: TextIO) -> None:
    """What a stream has not written yet goes nowhere, so that Python can end without trying again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(given: list[str]) -> int:
    parser = _parser(next((argument for argument in given if not argument.startswith("-")), ""))
    debug = "--debug" in given
    mistake = _broken_config(given)
    if mistake is not None:
        print(f"tokenstn: {mistake}", file=sys.stderr)
        return 2
    try:
        settings = parser.parse_args(_with_lists(_with_flags([word for word in given if word != "--debug"])))
    except ArgumentError as refused:
        if debug:
            raise
        verb = _verb_of(given)
        said = mistake_in_words(refused, given, verb, _options_of(given), COMMANDS)
        print(f"{f'tokenstn {verb}'.strip()}: {said}", file=sys.stderr)
        return 2
    except Exception as mistake:  # what the parser stumbles over: a mapping where several words belong
        if debug:
            raise
        print(f"tokenstn: the settings cannot be read ({mistake}): see --help", file=sys.stderr)
        return 2
    verb = settings.subcommand
    options: Namespace = settings[verb]
    options.pop("config", None)
    try:
        with warnings.catch_warnings(), terminated_like_interrupted():
            warnings.simplefilter("once", UserWarning)
            warnings.showwarning = _show_warning
            result = COMMANDS[verb](**options.as_dict())
    except Stopped as stopped:
        if stopped.code:  # all but the first of several processes say nothing
            print(f"tokenstn {verb}: {stopped}", file=sys.stderr)
        return int(stopped.code or 0)
    except DeadProcessError as broken:
        if debug:
            raise
        print(f"tokenstn {verb}: {broken}", file=sys.stderr)
        return 1
    except (ValueError, OSError) as mistake:
        if debug:
            raise
        _flush()  # raises where the mistake is that nobody reads it
        print(f"tokenstn {verb}: {mistake}", file=sys.stderr)
        return 2
    if verb == "convert":
        print(result)
    return 0


def _broken_config(given: list[str]) -> str | None:
    """Why a file of settings cannot be read; None where it can. The parser believes all that it says, to the end."""
    for word, following in zip(given, [*given[1:], ""], strict=True):
        name = following if word == "--config" else word.partition("--config=")[2]
        if os.path.isfile(name):
            try:
                read_yaml(Path(name))
            except (OSError, ValueError) as error:
                return str(error)
    return None


def _verb_of(given: list[str]) -> str:
    """The command that is meant, "" where there is no such command."""
    return next((argument for argument in given if argument in COMMANDS), "")


def _options_of(given: list[str]) -> Mapping[str, inspect.Parameter]:
    """The arguments of the command that is meant, none where there is no such command."""
    verb = _verb_of(given)
    return inspect.signature(COMMANDS[verb]).parameters if verb else {}


def _with_flags(given: list[str]) -> list[str]:
    """``--quick`` alone means ``--quick=true``, for every option that is true or false."""
    parameters = _options_of(given)
    flags = {f"--{name}" for name, parameter in parameters.items() if isinstance(parameter.default, bool)}
    after = [*given[1:], ""]
    return [
        f"{argument}=true" if argument in flags and following.lower() not in ("true", "false") else argument
        for argument, following in zip(given, after, strict=True)
    ]


def _with_lists(given: list[str]) -> list[str]:
    """``--primitives rotation,scale`` means ``--primitives=[rotation,scale]``, for every option that is a list."""
    parameters = _options_of(given)
    lists = {f"--{name}" for name, parameter in parameters.items() if is_list(parameter)}
    words: list[str] = []
    for word in given:
        name, joined, value = word.partition("=")
        if words and words[-1] in lists:
            name, joined, value = words.pop(), "=", word
        plain = name in lists and joined and value[:1] not in ("[", "{", "") and value != "null"
        words.append(f"{name}=[{value}]" if plain else f"{name}{joined}{value}")
    return words


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A sentence for the person, without the line of code that it comes from."""
    print(f"warning: {message}", file=sys.stderr)


class _Help(RawDescriptionHelpFormatter, DefaultHelpFormatter):
    """Keeps the lines of a description, so that its example stands alone."""


def _parser(wanted: str) -> ArgumentParser:
    """The parser, with the arguments of the command that is wanted: reading those of all would take seconds."""
    parser = ArgumentParser(
        prog="tokenstn",
        formatter_class=_Help,  # this and the next hold for the commands too
        allow_abbrev=False,
        exit_on_error=False,  # a sentence instead of the whole usage
        description="Image classification that does not depend on how the camera was held. --debug shows tracebacks.",
        version=tokenstn.__version__,
        epilog=EXIT_CODES,
    )
    commands = parser.add_subcommands(required=True)
    for name, verb in COMMANDS.items():
        summary = (inspect.getdoc(verb) or "").split("Args:")[0].strip()
        command = ArgumentParser(description=summary)
        if name == wanted:
            command.add_argument("--config", action="config", help="a YAML file with these settings")
            by_place = set()
            for which, number in ((SEVERAL, "+"), (PERHAPS, "?")):
                if name in which:
                    command.add_argument(which[name][0], nargs=number, type=str, help=which[name][1])
                    by_place.add(which[name][0])
            command.add_function_arguments(_arguments_of(verb), as_positional=True, skip=by_place)
        commands.add_subcommand(name, command, help=summary.splitlines()[0])
    return parser


def _arguments_of(verb: Callable) -> Callable:
    """A function with the arguments and the docstring of a verb: for the sake of its types the parser would import all
    that the verb's module names for type checkers, torch among it, which takes seconds and a GB.
    """

    def arguments() -> None: ...

    signature = inspect.signature(verb)
    arguments.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    types = get_type_hints(arguments, vars(sys.modules[verb.__module__]))
    resolved = [parameter.replace(annotation=types[name]) for name, parameter in signature.parameters.items()]
    arguments.__signature__ = inspect.Signature(resolved)  # type: ignore[attr-defined]
    arguments.__doc__, arguments.__name__ = verb.__doc__, verb.__name__
    return arguments


if __name__ == "__main__":
    sys.exit(main())
