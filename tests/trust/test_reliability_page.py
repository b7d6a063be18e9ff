"""The page on reliability says what the drills have found, all of it, and nothing that was not kept."""

import json
import re

import pytest

from .drills import drill

page = drill("page")
# the items that the project set itself, and a word that the page must have about each
ITEMS = {
    "Files from the wild": "rejected.csv",
    "Configs and model folders": "Nothing in a file is run",
    "Crashes": "SIGKILL",
    "Numbers": "not finite",
    "The server under load": "no accepted request is lost",
    "Strangers": "no connection leaves the machine",
    "Compatibility": "release",
    "Tests of geometry and posteriors": "mutants",
}


def test_the_page_is_what_its_script_renders():
    written = page.PAGE.read_text(encoding="utf-8")
    assert written == page.render(), "render it again: python benchmarks/reliability/page.py"


def test_every_promise_was_kept():
    broken = [finding["promise"] for finding in page.findings() if not finding["kept"]]
    assert len(page.findings()) > 50
    assert broken == []


@pytest.mark.parametrize("title", ITEMS)
def test_every_item_has_its_section_with_figures_and_their_command(title):
    sections = re.split("^## ", page.PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    section = next(one for one in sections if one.startswith(f"{title}\n"))
    assert ITEMS[title] in section
    assert "| Promise | Found | Kept |" in section
    assert "`python benchmarks/reliability/" in section


def test_every_file_of_findings_is_on_the_page():
    shown = {name for *_, drills, more in page.SECTIONS for name in (*drills, *more)}
    assert {path.stem for path in page.FOUND.glob("*.json")} <= shown


def test_every_drill_ran_at_its_whole_size():
    """Its command has no option but those that say where something is, or what is tried once more."""
    commands = [json.loads(path.read_text(encoding="utf-8"))["command"] for path in page.FOUND.glob("*.json")]
    options = {option for command in commands for option in re.findall(r"--(\w+)", command)}
    assert options <= {"device", "out", "mutmut", "work", "again", "lowest"}


def test_what_a_stranger_wrote_is_text_on_the_page():
    assert page._plain("a|b\nc <img src=x> *d* `e`") == r"a\|b c &lt;img src=x&gt; \*d\* \`e\`"
