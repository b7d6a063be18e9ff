"""Libraries that would report on their use are told not to, unless the person has said otherwise."""

from __future__ import annotations

import os

OFF = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",  # huggingface_hub, timm, and Gradio through it
    "GRADIO_ANALYTICS_ENABLED": "False",
    "GRADIO_RUN_HISTORY": "False",  # of what visitors of the demo page did
}


def no_telemetry() -> None:
    """Before these libraries are imported: they look at the environment once."""
    for name, value in OFF.items():
        os.environ.setdefault(name, value)
