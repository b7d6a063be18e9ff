"""Names that would run if a page took them for markup, and pages that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from PIL import Image

from tokenstn import Preprocessing, TokenSTN

from .write_release import SIZE, classifier, with_numbers

RAN = "window.ran"  # what every one of them would set
# as class names and, but for the slash, as names of files and folders
NAMES = (
    f"<script>{RAN}=1</script>",
    f"<img src=x onerror={RAN}=2>",
    f'"><svg onload={RAN}=3>',
    f"' autofocus onfocus={RAN}=4 x='",
    f"{{{{ {RAN} }}}}${{{RAN}=5}}`{RAN}=6`",
    f"</style><script>{RAN}=7</script>",
    f"javascript:{RAN}=8//",
    f"]]>--><script>{RAN}=9</script>",
)
FILE_NAMES = tuple(name.replace("/", "∕") for name in NAMES)
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


def nasty_model(classes: Sequence[str] = NAMES) -> TokenSTN:
    """A small model whose classes have these names."""
    network = classifier(classes=len(classes))
    settings = Preprocessing((SIZE, SIZE), (0.4,), (0.3,))
    return with_numbers(TokenSTN(network, primitives=("rotation", "scale"), classes=classes, preprocessing=settings))


def write_images(folder: Path, copies: int = 2) -> Path:
    """A folder of classes with some grey photos each; folders and files have such names."""
    for k, name in enumerate(FILE_NAMES):
        (folder / name).mkdir(parents=True)
        for copy in range(copies):
            noise = torch.randint(0, 256, (40, 40), generator=torch.Generator().manual_seed(copies * k + copy))
            picture = Image.fromarray(noise.to(torch.uint8).numpy())
            picture.save(folder / name / f"{copy}{FILE_NAMES[-1 - k]}.png")
    return folder


@contextmanager
def opened(address: str, chromium: str, wait_for: str | None = None):
    """A page in Chromium, and what it did: (page, said, asked); dialogs, errors and messages are what it said."""
    from playwright.sync_api import sync_playwright

    said: list[str] = []
    asked: list[str] = []
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=QUIET)
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        if wait_for is not None:
            page.wait_for_selector(wait_for, timeout=60_000)
        yield page, said, asked
        browser.close()
