"""The page on reliability, from its texts and from what the drills have found.

    python benchmarks/reliability/page.py            # docs/reliability/*.md and results/reliability/*.json -> the page
    python benchmarks/reliability/page.py --check    # is the page what they give? nothing is written

Every section has a text by hand and figures by a command. A section whose drill has no file yet is an error.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
TEXTS = ROOT / "docs" / "reliability"
FOUND = ROOT / "results" / "reliability"
# heading, text, the drills whose findings stand below it, and those that need a machine that not everyone has
SECTIONS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("Files from the wild", "files", ("files",), ()),
    ("Configs and model folders", "configs", ("configs",), ()),
    ("Crashes", "crashes", ("crashes",), ()),
    ("Numbers", "numbers", ("numbers",), ("parity_cuda",)),
    ("The server under load", "load", ("load",), ()),
    ("Strangers", "strangers", ("strangers",), ()),
    ("Compatibility", "compatibility", ("compatibility",), ()),
    ("Tests of geometry and posteriors", "mutants", ("mutants",), ()),
)
WAITING = {
    "parity_cuda": "the rows for CUDA: `python benchmarks/reliability/parity.py --device cuda` where there is a GPU.",
}
HEAD = """# Reliability

<!-- written by benchmarks/reliability/page.py from docs/reliability/ and results/reliability/: change those -->

What this package promises when something is wrong: with a file, a machine, a number, or with the people who can
reach it. Each promise was tried by a command that stands below its figures, at the size that they name; small versions
of the same run in the tests. Times are those of a busy machine and are there to say what a command costs.
"""


def render() -> str:
    """The page."""
    return "\n".join([HEAD, *(_section(*section) for section in SECTIONS)])


def findings() -> list[dict[str, Any]]:
    """Every finding on the page."""
    return [
        finding for *_, drills, more in SECTIONS for record in _records(drills, more) for finding in record["findings"]
    ]


def _section(title: str, text: str, drills: tuple[str, ...], more: tuple[str, ...]) -> str:
    words = (TEXTS / f"{text}.md").read_text(encoding="utf-8")
    words = re.sub(r"\A# .*\n+", "", words).strip()
    records = _records(drills, more)
    tables = [_table(records[0]), *(f"**{record['title']}**\n\n{_table(record)}" for record in records[1:])]
    tables += [f"Not tried yet: {WAITING[name]}" for name in more if not (FOUND / f"{name}.json").exists()]
    return "\n\n".join([f"## {title}", words, *tables]) + "\n"


def _records(drills: tuple[str, ...], more: tuple[str, ...]) -> list[dict[str, Any]]:
    paths = [FOUND / f"{name}.json" for name in drills]
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        raise ValueError(f"results/reliability/{missing[0]} is not there: run the drill that writes it")
    paths += [path for name in more if (path := FOUND / f"{name}.json").exists()]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def _table(record: dict[str, Any]) -> str:
    rows = [
        f"| {_plain(finding['promise'])} | {_plain(finding['figure'])} | {'yes' if finding['kept'] else '**no**'} |"
        for finding in record["findings"]
    ]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    measured = f"`{record['command']}` · {record['machine']} · {versions} · {record['seconds']:,} s"
    return "\n".join(["| Promise | Found | Kept |", "|---|---|---|", *rows, "", measured])


def _plain(text: str) -> str:
    """Text that means itself in a cell of a table."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


def main() -> None:
    """Parse, render, write or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    given = parser.parse_args()
    page = render()
    if not given.check:
        PAGE.write_text(page, encoding="utf-8")
        print(f"written: {PAGE.relative_to(ROOT)}")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
        sys.exit("docs/reliability.md is not what the drills found: python benchmarks/reliability/page.py")


if __name__ == "__main__":
    main()
