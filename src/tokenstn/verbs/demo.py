"""``tokenstn demo``: a page to play with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenstn.verbs.sources import ImageSource

if TYPE_CHECKING:
    from tokenstn.apps.embedded import Example
    from tokenstn.data import ImageTable

SHOWN = 8


def demo(
    model: str | None = None,
    images: ImageSource | None = None,
    host: str = "127.0.0.1",
    port: int = 7860,
    open_browser: bool = False,
    accelerator: str = "auto",
) -> None:
    """Turn an image in the browser and watch it being turned back: what is believed, seen and answered, live, offline.

    Example: tokenstn demo

    Args:
        model: a run folder, a model folder or an exported .onnx file; a small one for digits, from inside the package,
            when left out.
        images: examples to begin with: a folder, a manifest or a name; the first ones of the test images are taken.
        host: 127.0.0.1 shows it to this machine alone, 0.0.0.0 or :: to every network.
        port: of the page.
        open_browser: open the page.
        accelerator: cpu, gpu, mps or auto.
    """
    from rich.console import Console

    from tokenstn.verbs.extras import require_extra
    from tokenstn.verbs.telemetry import no_telemetry

    no_telemetry()
    require_extra("demo", "gradio")

    import tokenstn
    from tokenstn.apps import demo as apps
    from tokenstn.apps.dropped import gone_with_the_page
    from tokenstn.apps.embedded import embedded_examples, embedded_model
    from tokenstn.apps.loopback import LOOPBACK, is_loopback
    from tokenstn.apps.ports import require_free
    from tokenstn.verbs.serve import saved_model
    from tokenstn.verbs.speech import say, warn

    host = host.strip("[]")
    require_free(host, port)
    console = Console(soft_wrap=True)
    folder = embedded_model() if model is None else saved_model(model)
    loaded = tokenstn.load(folder).to(_device(accelerator))
    examples: list[Example] = []
    if images is not None:
        from tokenstn.data import open_images

        examples = _examples(open_images(images))
    elif model is None:
        examples = embedded_examples()
    named = folder.parent.name if folder.name == "model" else folder.name
    name = "A small model for digits" if model is None else f"The model {named}"
    say(console, "model", "a small one for digits, from inside the package" if model is None else model)
    if not is_loopback(host):
        warn(console, [f"every machine that reaches {host} can use this page"])
    address = f"[{host}]" if ":" in host else host
    here = {"0.0.0.0": LOOPBACK, "[::]": "[::1]"}.get(address, address)
    say(console, "page", f"http://{here}:{port}   Ctrl+C ends it")
    with gone_with_the_page():
        apps.launch(apps.page(apps.Stage(loaded, examples), name), address, port, open_browser)


def _device(accelerator: str) -> str:
    import torch

    known = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "mps": "mps"}
    if accelerator == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if accelerator not in known:
        raise ValueError(f"accelerator {accelerator}: cpu, gpu, mps or auto")
    if known[accelerator] == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"accelerator {accelerator}: torch sees no GPU here; use cpu or auto")
    return known[accelerator]


def _examples(table: ImageTable) -> list[Example]:
    """The first images of every class in turn that can be read, of the test split where there is one."""
    from collections import Counter

    from tokenstn.apps.embedded import Example
    from tokenstn.data import UnreadableImageError
    from tokenstn.evaluation.answers import is_labelled

    rows = table.split("test").tolist() if "test" in table.splits else range(len(table))
    labelled = is_labelled(table.labels)
    before: Counter[str] = Counter()  # images of the same label that came before
    turns: list[tuple[int, int]] = []
    for row in rows:
        label = str(table.labels[row].tolist())
        turns.append((before[label], row))
        before[label] += 1
    examples: list[Example] = []
    for _, row in sorted(turns):
        if len(examples) == SHOWN:
            break
        try:
            photo = table.read(row, table.channels)
        except UnreadableImageError:
            continue
        named = bool(labelled[row]) and not table.multi_label and bool(table.classes)
        examples.append(Example(photo, table.classes[int(table.labels[row])] if named else ""))
    if not examples:
        raise ValueError(f"{table.name}: none of its images can be read")
    return examples
