"""The names of classes, files and models come from strangers. On no page do they become more than text."""

import re
import shutil
from pathlib import Path

import pytest

from tests.apps.processes import command, load_test
from tests.reports import evaluations
from tokenstn.reports import write_report

from . import pages

chromium = shutil.which("chromium")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(chromium is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report on a model, classes, files and warnings with such names."""
    evaluation = evaluations.rectified(
        pages.NAMES, model=pages.NAMES[0], data=pages.NAMES[1], provenance=evaluations.provenance(pages.NAMES[2]),
        warnings=pages.NAMES,
    )  # fmt: skip
    examples = evaluations.examples(evaluation, each=3)
    examples = [type(one)(**{**vars(one), "name": pages.NAMES[k % 8]}) for k, one in enumerate(examples)]
    return write_report(evaluation, examples, tmp_path_factory.mktemp("report"))


def test_nothing_runs_in_the_report(report):
    with pages.opened(report.as_uri(), chromium) as (page, said, asked):
        assert page.evaluate(f"typeof {pages.RAN}") == "undefined"
        assert said == [] and asked == [report.as_uri()]
        assert page.locator("script, iframe, object, embed").count() == 0
        text = page.inner_text("body")
    assert all(name in text for name in pages.NAMES[:4])


def test_nothing_runs_in_a_figure_of_its_own(report):
    figures = sorted((report.parent / "figures").glob("*.svg"))
    by_class = next(path for path in figures if path.stem == "flips_by_class")
    assert "&lt;script&gt;" in by_class.read_text(encoding="utf-8")  # the names are in it
    for path in figures:
        assert not re.search(r"<(script|img|foreignObject)|\son\w+=\"", path.read_text(encoding="utf-8"))
    with pages.opened(by_class.as_uri(), chromium) as (page, said, asked):
        assert page.evaluate(f"typeof {pages.RAN}") == "undefined"
        assert said == [] and asked == [by_class.as_uri()]


def test_nothing_runs_in_the_demo_page(tmp_path):
    """The page of a model and examples of such names: at first, and after an example was picked."""
    pytest.importorskip("gradio", reason="gradio is not installed")
    folder, port = tmp_path / pages.FILE_NAMES[1], load_test().free_port()
    pages.nasty_model().save_pretrained(folder)
    address = f"http://127.0.0.1:{port}"
    words = ["demo", str(folder), f"--images={pages.write_images(tmp_path / 'images')}", f"--port={port}"]
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    with (
        command(*words, url=address, environment={"TMPDIR": str(uploads)}),
        pages.opened(address, chromium, wait_for="#answer") as (page, said, asked),
    ):
        before = page.inner_html("#sights")
        page.locator("#examples button").nth(3).click()
        page.wait_for_function("before => document.querySelector('#sights').innerHTML !== before", arg=before)
        assert page.evaluate(f"typeof {pages.RAN}") == "undefined" and said == []
        assert all(url.startswith((address, "data:", "blob:")) for url in asked)
        assert page.inner_text("#answer") in pages.NAMES
        assert pages.FILE_NAMES[1] in page.inner_text("#head")
        labels = page.eval_on_selector_all("#examples button", "all => all.map(one => one.ariaLabel)")
        assert {label.split(": ", 1)[1] for label in labels} <= set(pages.FILE_NAMES)
        inside = "#sights script, #details script, #head script, #head img"
        assert page.locator(inside).count() == 0
        assert page.evaluate("window.gradio_config.analytics_enabled") is False
        page.set_input_files("#drop input[type=file]", next((tmp_path / "images").glob("*/*.png")))
        page.wait_for_selector("#drop img")
        assert len(list(uploads.rglob("*.png"))) == 1
    assert not list(uploads.rglob("*.png")), "what was dropped on a page is gone with it"


def test_a_model_card_keeps_names_in_their_place(tmp_path):
    """Whoever renders Markdown may let HTML through, so none is there."""
    model = pages.nasty_model()
    model.save_pretrained(tmp_path / "model")
    card = Path(tmp_path, "model", "README.md").read_text(encoding="utf-8")
    outside = re.sub(r"(?s)(`+)(?!`).*?(?<!`)\1(?!`)", "", card.split("---", 2)[2].replace("<!--", ""))
    assert "<script" not in outside and "<img" not in outside and "<svg" not in outside
