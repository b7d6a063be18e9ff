"""``tokenstn serve``: a model behind HTTP."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from tokenstn.verbs.sources import ImageSource

if TYPE_CHECKING:
    from pathlib import Path

    from tokenstn.models import TokenSTN

TOKEN = "TOKENSTN_TOKEN"


def serve(
    model: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    views: int | Literal["auto"] | None = None,
    top: int = 5,
    max_batch_size: int = 32,
    batch_timeout: float = 0.005,
    workers_per_device: int = 1,
    accelerator: str = "auto",
    devices: int | str = "auto",
    token: str | None = None,
    max_request_bytes: int = 16_777_216,
    max_pixels: int = 50_000_000,
    queue: int = 128,
    timeout: float = 30.0,
    reference: ImageSource | None = None,
) -> None:
    """Answer images over HTTP: /predict, /health, /metrics for Prometheus, /docs; ends in good order on SIGTERM.

    Example: tokenstn serve runs/photos
    Then: curl -F image=@photo.jpg http://127.0.0.1:8000/predict

    Args:
        model: a run folder, a model folder or an exported .onnx file.
        host: 127.0.0.1 answers this machine alone; 0.0.0.0 or :: every network, with a token if you are wise.
        port: from 1024.
        views: how many poses are looked at for each image; what the model has by default when left out.
        top: classes in an answer.
        max_batch_size: images that are answered together.
        batch_timeout: seconds to wait for more of them.
        workers_per_device: processes with a model of their own on each device.
        accelerator: cpu, gpu, mps or auto.
        devices: how many, or auto.
        token: clients send it as "Authorization: Bearer …"; better given as TOKENSTN_TOKEN in the environment.
        max_request_bytes: larger requests get 413.
        max_pixels: images with more get 413, and are not decoded.
        queue: requests in flight; more get 503 at once. This times max_request_bytes bounds the memory for uploads.
        timeout: seconds until a request that was not answered gets 504.
        reference: images like those in training: their answers are written to reference.json in the model folder,
            once, and /metrics shows how far the answers of this server are from them.
    """
    from rich.console import Console

    from tokenstn.verbs.extras import require_extra

    require_extra("serve", "litserve", "prometheus_client", "python_multipart")

    import tokenstn
    from tokenstn.apps import server
    from tokenstn.apps.loopback import LOOPBACK
    from tokenstn.apps.ports import require_free
    from tokenstn.verbs.speech import say, warn

    settings = server.ServerSettings(
        host=host, port=port, views=views, top=top, max_batch_size=max_batch_size, batch_timeout=batch_timeout,
        workers_per_device=workers_per_device, accelerator=accelerator, devices=devices,
        token=token or os.environ.get(TOKEN) or None, max_request_bytes=max_request_bytes, max_pixels=max_pixels,
        queue=queue, timeout=timeout,
    )  # fmt: skip
    console = Console(soft_wrap=True)
    require_free(settings.host, settings.port)
    path = saved_model(model)
    loaded = tokenstn.load(path)
    address = f"http://{LOOPBACK}:{port}"
    header = f'-H "Authorization: Bearer ${TOKEN}" ' if settings.token else ""

    def when_ready() -> None:
        say(console, "ready", f"{address}   /predict /health /metrics /docs")
        say(console, "try", f"curl -F image=@photo.jpg {header}{address}/predict")

    say(console, "model", f"{model}")
    if reference is not None:
        say(console, "reference", _measured(loaded, path, reference, views))
    if loaded.thresholds is not None:
        why_not = loaded.thresholds.why_not(loaded.call_settings(views or "auto"))
        uncalibrated = [f"{flag}: {why}" for flag, why in loaded.thresholds.uncalibrated.items()]
        warn(console, [why_not] if why_not else uncalibrated)
    if settings.open_to_others:
        warn(console, [f"every machine that reaches {host} can use this server: set {TOKEN}, or leave --host out"])
    server.run(server.build(loaded, path, settings, when_ready), settings)
    say(console, "done", "every request that was accepted is answered")


def saved_model(model: str) -> Path:
    """The model folder of what was typed, or the exported file."""
    from tokenstn.verbs.models import place_of

    folder = place_of(model).folder
    if folder is None:
        raise ValueError(f"{model} is a name and no folder: tokenstn train and tokenstn convert make model folders")
    return folder


def _measured(model: TokenSTN, path: Path, reference: ImageSource, views: int | str | None) -> str:
    """Write reference.json, and say what was done."""
    from tokenstn.apps.reference import FILE, measure
    from tokenstn.data import open_images

    table = open_images(reference)
    found = measure(model, table, "val" if "val" in table.splits else None, views)
    folder = path if path.is_dir() else path.parent
    found.write(folder)
    return f"{found.images:,} answers on {found.source}, written to {folder.name}/{FILE}"
