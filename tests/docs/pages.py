"""Which pages of the site have blocks to run."""

from pagerun import pages_to_run

RUN = tuple(pages_to_run())
TUTORIALS = tuple(page for page in RUN if page.startswith("tutorials/"))
OTHERS = tuple(page for page in RUN if page not in TUTORIALS)
