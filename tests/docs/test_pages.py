"""Every other page with code runs as well: conventions, questions, and the contributor's examples with their tests."""

import pytest
from pagerun.execute import DOCS, ran_page

from tokenstn.data.open import ACCEPTED

from .pages import OTHERS


@pytest.mark.slow
@pytest.mark.parametrize("page", OTHERS)
def test_the_page_runs(page):
    assert any(output.strip() for output in ran_page(page).outputs)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in OTHERS if page.startswith("contributing/")])
def test_the_examples_of_the_contributors_guide_pass_their_own_tests(page):
    said = [output for output in ran_page(page).outputs if " passed in " in output]
    assert said and not any("failed" in output for output in said)


def test_the_page_of_commands_lists_what_images_may_be_without_being_run():
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert " ".join(ACCEPTED.split()) in " ".join(page.split())
