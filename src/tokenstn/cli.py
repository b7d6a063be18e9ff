"""The command line: parses and prints, nothing else. Every command is the function of the same name in ``verbs``.

Exit codes: 0 done, 1 something broke, 2 a mistake in the call or in what it was given, 130 interrupted.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from argparse import RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence

from jsonargparse import ArgumentParser, DefaultHelpFormatter, Namespace

from tokenstn import verbs

COMMANDS: dict[str, Callable] = {
    "diagnose": verbs.diagnose,
    "convert": verbs.convert,
    "train": verbs.train,
    "evaluate": verbs.evaluate,
    "compare": verbs.compare,
}
# arguments that take several words, which the parser does not see from a function
SEVERAL = {"compare": ("runs", "two or more folders that tokenstn evaluate or tokenstn train wrote")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser(next((argument for argument in given if not argument.startswith("-")), ""))
    debug = "--debug" in given
    settings = parser.parse_args([argument for argument in given if argument != "--debug"])
    verb = settings.subcommand
    options: Namespace = settings[verb]
    options.pop("config", None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("once", UserWarning)
            warnings.showwarning = _show_warning
            result = COMMANDS[verb](**options.as_dict())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (ValueError, OSError) as mistake:
        if debug:
            raise
        print(f"tokenstn {verb}: {mistake}", file=sys.stderr)
        return 2
    if verb == "convert":
        print(result)
    return 0


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
        description="Image classification that does not depend on how the camera was held. --debug shows tracebacks.",
    )
    commands = parser.add_subcommands(required=True)
    for name, verb in COMMANDS.items():
        summary = (inspect.getdoc(verb) or "").split("Args:")[0].strip()
        command = ArgumentParser(description=summary)
        if name == wanted:
            command.add_argument("--config", action="config", help="a YAML file with these settings")
            several = SEVERAL.get(name)
            if several is not None:
                command.add_argument(several[0], nargs="+", type=str, help=several[1])
            command.add_function_arguments(verb, as_positional=True, skip={several[0]} if several else set())
        commands.add_subcommand(name, command, help=summary.splitlines()[0])
    return parser


if __name__ == "__main__":
    sys.exit(main())
