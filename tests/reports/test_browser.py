"""The page in a real browser: it opens offline, shows every figure, fits a phone and follows the dark."""

import shutil

import pytest

from tokenstn.reports import figures, write_report

from . import evaluations as made

chromium = shutil.which("chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(chromium is None, reason="chromium is not installed")

QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
KINDS = ("rectified", "bare", "unlabelled", "thousand", "nasty")
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
COLORS = """() => {
  const text = document.querySelector('figure svg text')
  return [getComputedStyle(document.body).backgroundColor, getComputedStyle(text).fill || getComputedStyle(text).color]
}"""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=chromium, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    written = {}
    for kind in KINDS:
        evaluation = made.ALL[kind]()
        examples = made.examples(evaluation, each=2) if evaluation.rectified is not None else []
        path = write_report(evaluation, examples, tmp_path_factory.mktemp(kind))
        written[kind] = path, {path.stem for path in (path.parent / "figures").glob("*.svg")}, 2 * len(examples)
    return written


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_whole_at_every_width_and_asks_nobody(browser, reports, kind):
    path, names, pictures = reports[kind]
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    assert set(page.eval_on_selector_all("figure", "all => all.map(f => f.id.slice(7))")) == names
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(OVERFLOW) <= 0, width
        for name in names:
            box = page.locator(f"#figure-{name} svg").bounding_box()
            assert box["width"] > 250 and box["height"] > 60 and box["x"] >= 0 and box["x"] + box["width"] <= width
    loaded = "all => all.filter(i => i.complete && i.naturalWidth > 0 && i.alt).length"
    assert page.eval_on_selector_all("img", loaded) == pictures
    assert page.locator("script").count() == 0
    assert said == [] and asked == [path.as_uri()]
    page.close()


def test_dark_and_light_differ_and_print_is_light(browser, reports):
    page = browser.new_page(color_scheme="light")
    page.goto(reports["rectified"][0].as_uri())
    light = page.evaluate(COLORS)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(COLORS)
    assert light[0] != dark[0] and light[1] != dark[1]
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(COLORS)[0] == "rgb(255, 255, 255)"
    page.close()


def test_labels_of_a_figure_do_not_lie_on_each_other(browser, reports):
    """Class names and rates of the crowded figures, as the browser's own fonts set them."""
    page = browser.new_page(viewport={"width": 360, "height": 900})
    page.goto(reports["thousand"][0].as_uri())
    for name in ("entropy_rotation", "flips_by_class", "accuracy_by_class"):
        boxes = page.eval_on_selector_all(
            f"#figure-{name} svg text",
            "all => all.map(t => t.getBoundingClientRect()).map(b => [b.left, b.right, b.top, b.bottom])",
        )
        for k, (left, right, top, bottom) in enumerate(boxes):
            for other_left, other_right, other_top, other_bottom in boxes[k + 1 :]:
                across = min(right, other_right) - max(left, other_left)
                down = min(bottom, other_bottom) - max(top, other_top)
                assert across < 2 or down < 3, name
    page.close()


def test_the_data_of_a_figure_can_be_saved_from_the_page(browser, reports):
    page = browser.new_page()
    path = reports["rectified"][0]
    page.goto(path.as_uri())
    with page.expect_download() as download:
        page.locator("#figure-cost a").click()
    wanted = next(plot for plot in figures(made.rectified()) if plot.name == "cost").csv()
    assert download.value.suggested_filename == "cost.csv" and download.value.path().read_text() == wanted
    page.close()
