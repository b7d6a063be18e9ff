"""Do the tests notice when geometry and posteriors are wrong? Operators, numbers and arguments are changed one by one.

    python -m venv /tmp/mutation && /tmp/mutation/bin/pip install mutmut 'pytest<9'
    python -c "import torch; print(torch.__path__[0] + '/..')" > /tmp/mutation/lib/python3.11/site-packages/project.pth
    python benchmarks/reliability/mutants.py --mutmut /tmp/mutation/bin/mutmut

mutmut lives in an environment of its own that sees the packages of this one, and works on a copy of the tree. The tests
of the two rooms have to fail for each mutant; one that survives is to be killed by a new test, or explained in
``mutants.yaml``, where ``docs/reliability/mutants.md`` has the kinds in words.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import yaml
from record import Drill

ROOT = Path(__file__).parents[2]
ROOMS = ("geometry", "posteriors")
NOTICED = 1  # the exit code of tests that fail
EXPLAINED = Path(__file__).with_name("mutants.yaml")
SETTINGS = """
[tool.pytest.ini_options]
addopts = "--import-mode=importlib -q -p no:cacheprovider"
filterwarnings = ["error", "ignore::DeprecationWarning:(torch|timm|torchvision|transformers|lightning).*"]

[tool.mutmut]
source_paths = ["src/"]
only_mutate = ["src/tokenstn/geometry/*", "src/tokenstn/posteriors/*"]
pytest_add_cli_args_test_selection = ["tests/geometry", "tests/posteriors"]
also_copy = ["conftest.py"]
do_not_mutate_patterns = ['^\\s*raise ']  # the wording of errors
"""
# constants are kept from one call to the next: a mutant must not find those of the original
FORGET = """from tokenstn.geometry.constants import _kept


def pytest_runtest_setup() -> None:
    _kept.cache_clear()
"""


@dataclass(frozen=True)
class Reason:
    """Why mutants survive. kind: in words; where: which functions; change: what the diff holds; both are patterns."""

    kind: str
    where: str
    change: str

    def fits(self, name: str, diff: str) -> bool:
        return bool(re.search(self.where, name) and re.search(self.change, diff, re.MULTILINE))


def reasons() -> list[Reason]:
    """In the order of the file; the first that fits counts."""
    kinds = yaml.safe_load(EXPLAINED.read_text(encoding="utf-8"))
    return [
        Reason(kind, one.get("where", ""), one["change"])
        for kind, entries in kinds.items()
        for one in entries["mutants"]
    ]


def copy_tree(work: Path) -> None:
    """What mutmut needs of the tree, with settings of its own."""
    shutil.copytree(ROOT / "src", work / "src", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (*ROOMS, "trust/witness"):
        shutil.copytree(ROOT / "tests" / folder, work / "tests" / folder, dirs_exist_ok=True)
    for name in ("conftest.py", "tests/__init__.py"):
        shutil.copy(ROOT / name, work / name)
    (work / "tests" / "conftest.py").write_text(FORGET, encoding="utf-8")
    (work / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")


def forget_survivors(work: Path, some: str) -> None:
    """Tests may have come since: only what was noticed, in functions that are the same, is not tried again."""
    for path in work.glob("mutants/src/**/*.meta"):
        kept = json.loads(path.read_text(encoding="utf-8"))
        codes = kept["exit_code_by_key"]
        again = {name for name, code in codes.items() if code != NOTICED and fnmatch(name, some)}
        kept["exit_code_by_key"] = {name: None if name in again else code for name, code in codes.items()}
        path.write_text(json.dumps(kept), encoding="utf-8")


def run(mutmut: str, work: Path, processes: int) -> dict[str, str]:
    """What became of each mutant: {name: killed | survived | no tests | timeout | …}."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([mutmut, "run", "--max-children", str(processes)], cwd=work, env=environment, check=True)
    told = subprocess.run([mutmut, "results", "--all", "true"], cwd=work, capture_output=True, text=True, check=True)
    lines = (line.strip().rpartition(": ") for line in told.stdout.splitlines() if "__mutmut_" in line)
    return {name: outcome for name, _, outcome in lines}


def survivors(mutmut: str, work: Path, outcomes: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Name and change of each mutant that no test has noticed."""
    for name, outcome in outcomes.items():
        if outcome in ("survived", "no tests"):
            shown = subprocess.run([mutmut, "show", name], cwd=work, capture_output=True, text=True, check=True).stdout
            changed = [line for line in shown.splitlines() if re.match(r"[-+](?![-+])", line)]
            yield name, "\n".join(changed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutmut", required=True, help="the command, in an environment of its own")
    parser.add_argument("--work", type=Path, help="a folder to work in; what was noticed there is not tried again")
    parser.add_argument("--again", default="*", help="which of those that survived there are tried again; a pattern")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    with Drill("mutants", "Tests of geometry and posteriors") as drill, tempfile.TemporaryDirectory() as spare:
        work = given.work or Path(spare)
        forget_survivors(work, given.again)
        copy_tree(work)
        outcomes = run(given.mutmut, work, given.processes)
        known, explained, open_ones = reasons(), Counter[str](), []
        used: set[Reason] = set()
        for name, change in survivors(given.mutmut, work, outcomes):
            reason = next((one for one in known if one.fits(name, change)), None)
            if reason is None:
                open_ones.append(name)
                print(f"NOT EXPLAINED {name}\n{change}", flush=True)
            else:
                explained[reason.kind] += 1
                used.add(reason)
        for stale in set(known) - used:
            print(f"no longer needed: {stale}", flush=True)
        counted = Counter(outcomes.values())
        lived = sum(explained.values()) + len(open_ones)
        drill.found(
            "a mistake in geometry/ or posteriors/ is noticed by a test of its room",
            f"{len(outcomes):,} mutants, {len(outcomes) - lived:,} noticed ({100 - 100 * lived / len(outcomes):.1f} %; "
            f"{counted['timeout']} by running too long), {lived} not",
            lived < 0.1 * len(outcomes),
        )
        kinds = ", ".join(f"{count} {kind}" for kind, count in explained.most_common())
        drill.found("each mutant that survives is explained", f"{kinds}; {len(open_ones)} are not", not open_ones)


if __name__ == "__main__":
    main()
