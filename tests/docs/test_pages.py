"""Every other page with code runs as well: conventions, questions, and the contributor's examples with their tests."""

import pytest
from pagerun.execute import ran_page

from .pages import OTHERS


@pytest.mark.parametrize("page", OTHERS)
def test_the_page_runs(page):
    assert any(output.strip() for output in ran_page(page).outputs)


@pytest.mark.parametrize("page", [page for page in OTHERS if page.startswith("contributing/")])
def test_the_examples_of_the_contributors_guide_pass_their_own_tests(page):
    said = [output for output in ran_page(page).outputs if " passed in " in output]
    assert said and not any("failed" in output for output in said)
