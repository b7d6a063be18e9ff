"""The page to play with: turn a photo and watch it being turned back. Gradio, and nothing from other hosts."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.themes import Base
from gradio.utils import get_upload_folder
from markupsafe import escape
from starlette.middleware import Middleware
from torch import Tensor

from tokenstn.apps.embedded import Example
from tokenstn.apps.gate import Gate
from tokenstn.apps.loopback import is_loopback
from tokenstn.apps.moves import Moves, shrink, to_png
from tokenstn.apps.show import parts, thumbnails
from tokenstn.apps.sight import look_at
from tokenstn.data import UnreadableImageError, read_image
from tokenstn.data.images import with_channels
from tokenstn.models import TokenSTN
from tokenstn.models.preprocessing import preprocessing_of

FONTS = ("system-ui", "-apple-system", "Segoe UI", "Noto Sans", "DejaVu Sans", "sans-serif")
MONO = ("ui-monospace", "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", "monospace")
MOST_VIEWS = 16
THUMBNAIL = 120  # pixels
KEPT = (60, 3600)  # seconds: how often dropped images are looked through, and how old they become on the disk
HEAD = """<div id="head"><h1>Turn it, and it is turned back</h1>
<p>{model} finds how the object sits in the image, undoes that, and classifies what it then sees.</p></div>"""
# tells Python which of the small pictures was clicked, and marks it
CLICKED = """element.addEventListener("click", event => {
  const chosen = event.target.closest("button")
  if (!chosen) return
  for (const one of element.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one === chosen))
  trigger("click", {index: Number(chosen.dataset.index)})
})"""
EMPTY = '<div class="tokenstn"><p class="muted">Drop an image to begin.</p></div>'


class Stage:
    """A model and its example images: what the page's events call. Photos live in the page's own state."""

    def __init__(self, model: TokenSTN, examples: Sequence[Example]) -> None:
        self.model = model.eval()
        self.channels = len(preprocessing_of(model, "this model").mean)
        self.examples = [
            Example(shrink(with_channels(one.photo, self.channels)), one.label, one.turn) for one in examples
        ]

    def show(
        self, photo: Tensor | None, turn: float, zoom: float, shear: float, right: float, down: float,
        mirrored: bool, auto: bool, views: float,
    ) -> tuple[str, str]:  # fmt: skip
        """The two changing parts of the page, for a photo ``(C, H, W)`` as the sliders move it."""
        if photo is None:
            return EMPTY, ""
        moved = Moves(turn, zoom, shear, right, down, mirrored).apply(photo)
        wanted = "auto" if auto or self.model.bare else int(views)
        return parts(look_at(self.model, moved, wanted), None if mirrored else turn)

    def read(self, path: str | None) -> Tensor | None:
        """An image that was dropped, small enough to be moved live."""
        if path is None:
            return None
        try:
            return shrink(read_image(Path(path), self.channels))
        except UnreadableImageError as error:
            raise gr.Error(f"This image cannot be read: {error.reason}", title="Not an image") from error


def page(stage: Stage, model_name: str) -> gr.Blocks:
    """The whole page, not yet served."""
    first = stage.examples[0] if stage.examples else None
    begin = () if first is None else (first.photo, first.turn)
    with gr.Blocks(title="TokenSTN", analytics_enabled=False, delete_cache=KEPT) as blocks:
        photo = gr.State(first.photo if first else None)
        gr.HTML(HEAD.format(model=escape(model_name)))
        with gr.Row(elem_id="layout"):
            with gr.Column(elem_id="pick"):
                gallery = _gallery(stage.examples)
                drop = gr.Image(
                    type="filepath", image_mode=None, sources=["upload", "clipboard"], height=120, elem_id="drop",
                    label="Your own image", placeholder="Drop an image, or click to choose",
                )  # fmt: skip
            with gr.Column(elem_id="sight"):
                seen = gr.HTML(EMPTY, elem_id="seen")
            with gr.Column(elem_id="move"):
                sliders = _sliders(first.turn if first else 0.0)
                auto = gr.Checkbox(
                    True, label="As many views as it needs", elem_id="auto", visible=not stage.model.bare
                )
                views = gr.Slider(1, MOST_VIEWS, 4, step=1, label="Views", elem_id="number", visible=False)
                reset = gr.Button("Put everything back", size="sm", elem_id="reset")
            with gr.Column(elem_id="detail"):
                said = gr.HTML("", elem_id="said")
        knobs = [*sliders, auto, views]
        quiet: Any = {"show_progress": "hidden", "trigger_mode": "always_last", "api_visibility": "private"}
        for knob in knobs:
            knob.input(stage.show, [photo, *knobs], [seen, said], **quiet)
        auto.change(lambda on: gr.Slider(visible=not on), auto, views, **quiet)

        def take(event: gr.EventData) -> tuple[Any, ...]:
            """Begin with an example, turned as it comes."""
            chosen = stage.examples[int(event.index)]
            return chosen.photo, *_at_rest(chosen.turn), None

        def receive(path: str | None) -> tuple[Any, ...]:
            """Begin with an image that was dropped, as it is."""
            given = stage.read(path)
            if given is None:
                return (gr.skip(),) * (1 + len(sliders))
            return given, *_at_rest(0.0)

        def again(given: Tensor | None, *settings: Any) -> tuple[Any, ...]:
            """Put the sliders back, and show the photo as it came."""
            return *_at_rest(0.0), *stage.show(given, *_at_rest(0.0), *settings)

        shown = (stage.show, [photo, *knobs], [seen, said])
        if gallery is not None:
            gallery.click(take, None, [photo, *sliders, drop], **quiet).then(*shown, **quiet)
        drop.upload(receive, drop, [photo, *sliders], **quiet).then(*shown, **quiet)
        reset.click(again, [photo, auto, views], [*sliders, seen, said], **quiet)
        if begin:
            blocks.load(*shown, **quiet)
    return blocks


def launch(blocks: gr.Blocks, host: str, port: int, open_browser: bool, block: bool = True) -> Any:
    """Serve the page, until Ctrl+C unless ``block`` is false."""
    style = (files("tokenstn.apps") / "page" / "demo.css").read_text(encoding="utf-8")
    theme = Base(primary_hue="blue", neutral_hue="slate", font=FONTS, font_mono=MONO)
    return blocks.launch(
        server_name=host, server_port=port, inbrowser=open_browser, share=False, quiet=True, footer_links=[],
        prevent_thread_lock=not block, theme=theme, css=style, ssr_mode=False, mcp_server=False, pwa=False,
        enable_monitoring=False, max_file_size="32mb", show_error=False, allowed_paths=[],
        app_kwargs={"middleware": [Middleware(Gate, loopback=is_loopback(host), uploads=get_upload_folder())]},
    )  # fmt: skip


def _gallery(examples: Sequence[Example]) -> gr.HTML | None:
    """Small pictures to click on, as the examples come at first."""
    if not examples:
        return None
    pictures = [to_png(shrink(Moves(turn=one.turn).apply(one.photo), THUMBNAIL)) for one in examples]
    return gr.HTML(thumbnails(pictures, [one.label for one in examples]), js_on_load=CLICKED, elem_id="examples")


def _sliders(turn: float) -> list[Any]:
    return [
        gr.Slider(-180, 180, turn, step=1, label="Turn, ° clockwise", elem_id="turn"),
        gr.Slider(0.5, 1.5, 1.0, step=0.01, label="Zoom, ×", elem_id="zoom"),
        gr.Slider(-0.6, 0.6, 0.0, step=0.01, label="Shear", elem_id="shear"),
        gr.Slider(-50, 50, 0, step=1, label="Shift right, %", elem_id="right"),
        gr.Slider(-50, 50, 0, step=1, label="Shift down, %", elem_id="down"),
        gr.Checkbox(False, label="Mirror", elem_id="mirror"),
    ]


def _at_rest(turn: float) -> tuple[float, float, float, float, float, bool]:
    """Where the sliders stand with nothing but a turn."""
    rest = Moves(turn=turn)
    return rest.turn, rest.zoom, rest.shear, rest.right, rest.down, rest.mirrored
