"""Images that are dropped on the demo page lie in a folder of their own, which goes when the page does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

FOLDER = "GRADIO_TEMP_DIR"


@contextmanager
def gone_with_the_page() -> Iterator[None]:
    """Around the making and serving of a page. Who has named a folder for them in the environment keeps them."""
    if FOLDER in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="tokenstn-demo-", ignore_cleanup_errors=True) as folder:
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]
