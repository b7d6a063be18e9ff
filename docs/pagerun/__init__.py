"""Pages that run: the code of a Markdown page is executed, and what it put out stands on the page of the site."""

from pagerun.cells import Cell, cells_of
from pagerun.execute import PageFailedError, Ran, pages_to_run, ran_page
from pagerun.render import render

__all__ = ["Cell", "PageFailedError", "Ran", "cells_of", "pages_to_run", "ran_page", "render"]
