"""The page in a real browser: it opens, follows the sliders, asks nobody else, and fits a phone."""

import json
import shutil
import socket

import pytest

from tokenstn.apps.embedded import embedded_examples
from tokenstn.apps.moves import to_png

from .processes import command, load_test

chromium = shutil.which("chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("gradio", reason="gradio is not installed")
pytestmark = pytest.mark.skipif(chromium is None, reason="chromium is not installed")

QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
FOUND = "parseInt(document.querySelector('#found-rotation').textContent.replace('−', '-'))"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def address():
    port = load_test().free_port()
    url = f"http://127.0.0.1:{port}"
    with command("demo", f"--port={port}", url=url):
        yield url


def test_the_page_is_where_it_says_that_it_is():
    """An address of the sixth version of IP stands in brackets."""
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    port = load_test().free_port()
    with command("demo", "--host=::1", f"--port={port}", url=f"http://[::1]:{port}"):
        pass  # it has answered


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=chromium, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture
def page(browser, address):
    """A page that has shown its first example; afterwards: no error was logged, and nobody else was asked."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    said, asked = [], []
    opened.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(address)
    opened.wait_for_selector("#answer", timeout=60_000)
    yield opened
    opened.close()
    assert said == []
    assert asked and all(url.startswith((address, "data:", "blob:")) for url in asked)


def rotation(page):
    return page.evaluate(FOUND)


def set_slider(page, name, value):
    """Type a number beside a slider, and wait until the page has followed."""
    before = page.inner_html("#sights")
    page.fill(f"#{name} input[type=number]", str(value))
    page.press(f"#{name} input[type=number]", "Enter")
    page.wait_for_function("before => document.querySelector('#sights').innerHTML !== before", arg=before)


def test_an_example_is_picked_turned_and_followed(page):
    first = page.inner_html("#sights")
    page.locator("#examples button").nth(1).click()
    page.wait_for_function("before => document.querySelector('#sights').innerHTML !== before", arg=first)
    page.wait_for_function("document.querySelector('#answer').textContent === '4'")
    set_slider(page, "turn", 30)
    assert page.inner_text("#answer") == "4" and abs(rotation(page) - 30) < 15
    set_slider(page, "turn", -150)
    assert page.inner_text("#answer") == "4" and abs(rotation(page) + 150) < 15
    set_slider(page, "zoom", 0.8)
    assert float(page.inner_text("#found-scale").rstrip("×")) < 0.95
    page.click("#reset button, button#reset")
    page.wait_for_function(f"Math.abs({FOUND}) < 15")
    assert page.input_value("#turn input[type=number]") == "0"


def test_the_slider_itself_moves_the_image(page):
    handle = page.locator("#turn input[type=range]")
    before = rotation(page)
    handle.focus()
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"Math.abs({FOUND} - 90) < 15")
    assert before > 115


def test_views_can_be_counted_out_and_the_flags_say_why_they_are_gone(page):
    assert "Label accepted" in page.inner_text("#details")
    page.locator("#auto input").uncheck()
    page.wait_for_selector("#number input[type=number]")
    set_slider(page, "number", 1)
    page.wait_for_function("document.querySelector('#views').textContent === '1'")
    assert page.locator("#sights .best").count() == 1 and page.locator("#sights .view").count() == 0
    assert "that is what was calibrated" in page.inner_text("#details")


def test_an_ambiguous_digit_says_so(page):
    page.locator("#examples button").nth(4).click()
    page.wait_for_function("document.querySelector('#details').innerText.includes('two orientations fit')")
    assert "6" in page.inner_text(".remark.alarm") and "9" in page.inner_text(".remark.alarm")


def test_an_image_can_be_dropped_and_the_results_saved(page, tmp_path):
    digit = embedded_examples()[2]
    path = tmp_path / "two.png"
    path.write_bytes(to_png(digit.photo))
    before = page.inner_html("#sights")
    page.set_input_files("#drop input[type=file]", path)
    page.wait_for_function("before => document.querySelector('#sights').innerHTML !== before", arg=before)
    page.wait_for_function("document.querySelector('#answer').textContent === '2'")
    with page.expect_download() as download:
        page.get_by_text("JSON").click()
    answer = json.loads(download.value.path().read_text())
    assert answer["prediction"] == "2" and answer["photo_px"] == [280, 280] and abs(answer["rotation_deg"]) < 20
    with page.expect_download() as download:
        page.get_by_text("Rectified image").click()
    assert download.value.suggested_filename == "rectified.png"
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_a_phone_sees_everything_and_keeps_the_pictures_in_sight(page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(200)
    assert page.evaluate(OVERFLOW) <= 0
    for name in ("#sights", "#details", "#turn", "#examples", "#drop"):
        box = page.locator(name).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    page.locator("#down").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('#down').scrollIntoView()")
    pictures = page.locator("#sights").bounding_box()
    assert 0 <= pictures["y"] < 100


def test_light_and_dark_differ(page):
    colours = "getComputedStyle(document.querySelector('.three figure')).backgroundColor"
    light = page.evaluate(colours)
    page.emulate_media(color_scheme="dark")
    page.reload()
    page.wait_for_selector("#answer", timeout=60_000)
    assert page.evaluate(colours) != light
