"""Every tutorial does what it says, from an empty folder. What it put out is kept for the site."""

import pytest
from pagerun.execute import ran_page

from .pages import TUTORIALS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("page", TUTORIALS)
def test_the_tutorial_runs(page):
    assert any(output.strip() for output in ran_page(page).outputs)


def test_the_tutorials_that_were_promised_are_there():
    assert {page.split("/")[1] for page in TUTORIALS} == {
        "robust.md", "train.md", "own_loop.md", "primitives.md", "uncertainty.md", "straighten.md", "deploy.md",
        "many_nodes.md", "compare.md",
    }  # fmt: skip
