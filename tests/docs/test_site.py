"""The site: built strictly, whole without a network, readable on a desk and on a phone, with a search that finds."""

import os
import re
import shutil
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import tokenstn
from tokenstn.cli import COMMANDS

from .pages import RUN

pytest.importorskip("material", reason="mkdocs-material is not installed")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
ROOMS = ("geometry", "posteriors", "models", "data", "training", "baselines")
# makers of small variants and plain constants, which their class or their reader describes
NOT_DESCRIBED = {"medvit_tiny", "medvit_small", "medvit_large"}
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "video": "src"}
CHROMIUM = shutil.which("chromium")
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site as ``make docs`` builds it, elsewhere; pages that the tests have run are not run again."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "true"}  # a notice about the future of MkDocs, not about the site
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500, env=quiet)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Links(HTMLParser):
    """What a page loads, what it links to, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "id" in given:
            self.places.add(given["id"] or "")
        if tag in LOADED and given.get(LOADED[tag]) and given.get("rel") != "canonical":
            self.loads.append(given[LOADED[tag]] or "")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Links]:
    found = {}
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if "data-md-color" in text:  # of the site; reports that tutorials made have tests of their own
            found[path] = Links(text)
    return found


def test_nothing_is_loaded_from_the_network(pages):
    assert len(pages) > 25
    foreign = [url for page in pages.values() for url in page.loads if urlsplit(url).scheme in ("http", "https")]
    assert foreign == []
    assert all(not url.startswith("//") for page in pages.values() for url in page.loads)


def test_every_file_that_is_loaded_or_linked_to_is_there(pages):
    missing = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links begin at the root of a server
            continue
        for url in {*page.loads, *page.links}:
            parts = urlsplit(url)
            if parts.scheme or url.startswith("#"):
                continue
            target = (path.parent / unquote(parts.path)).resolve()
            known = pages.get(target)
            if not target.is_file() or (known is not None and parts.fragment and parts.fragment not in known.places):
                missing.append(f"{path.name}: {url}")
    assert missing == []


def test_the_outputs_of_the_run_stand_on_the_pages(site):
    for name in RUN:
        text = (site / name).with_suffix(".html").read_text(encoding="utf-8")
        assert 'class="output highlight"' in text, name


def test_every_public_name_is_described(site):
    """Sphinx's inventory, which the site carries, lists what is documented."""
    lines = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    documented = {line.split(" ", 1)[0].rsplit(".", 1)[-1] for line in zlib.decompress(lines).decode().splitlines()}
    public = {*tokenstn._HOMES, *(name for room in ROOMS for name in import_module(f"tokenstn.{room}").__all__)}
    values = {name for name in public if name.isupper() or name in ("RandomSource",)}
    assert sorted(public - documented - values - NOT_DESCRIBED) == []


def test_every_command_is_on_the_page_of_commands(site):
    text = (site / "cli.html").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"tokenstn {name}" not in re.sub("<[^>]+>", "", text)] == []


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_screen_and_no_script_fails(browser, pages, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    wide = []
    for path in pages:
        if path.name != "404.html":
            page.goto(path.as_uri())
            if page.evaluate(OVERFLOW) > 0:
                wide.append(path.name)
    page.close()
    assert (wide, said) == ([], [])


def test_the_search_finds_from_the_disk(browser, site):
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.click(".md-search__input")
    page.keyboard.type("quarter turns")
    page.wait_for_selector(".md-search-result__item a", timeout=20_000)
    found = page.eval_on_selector_all(".md-search-result__item a", "all => all.map(a => a.getAttribute('href'))")
    assert any("rival" in link for link in found)
    page.click(".md-search-result__item a >> nth=0")
    page.wait_for_load_state()
    assert page.url != (site / "index.html").as_uri()
    page.close()
