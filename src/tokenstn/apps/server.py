"""The server put together: one process that speaks HTTP, others that hold the model, and an orderly end."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import litserve
import torch

import tokenstn
from tokenstn.apps.connections import crowd_for
from tokenstn.apps.front import Front, Rules, register
from tokenstn.apps.loopback import LOOPBACK, is_loopback
from tokenstn.apps.metrics import Metrics
from tokenstn.apps.ports import require_free
from tokenstn.apps.reference import Reference
from tokenstn.apps.upload import SECONDS_FOR_BODY, Limits
from tokenstn.apps.watch import Watch
from tokenstn.apps.worker import ModelWorker
from tokenstn.models import TokenSTN
from tokenstn.models.preprocessing import preprocessing_of

HOSTS = (LOOPBACK, "0.0.0.0", "::")  # what LitServe binds to


@dataclass(frozen=True)
class ServerSettings:
    """Everything that ``tokenstn serve`` takes but the model, see there."""

    host: str = LOOPBACK
    port: int = 8000
    views: int | str | None = None
    top: int = 5
    max_batch_size: int = 32
    batch_timeout: float = 0.005
    workers_per_device: int = 1
    accelerator: str = "auto"
    devices: int | str = "auto"
    token: str | None = None
    max_request_bytes: int = 16 * 2**20
    max_pixels: int = 50_000_000
    queue: int = 128
    timeout: float = 30.0

    def __post_init__(self) -> None:
        if self.host == "localhost":
            object.__setattr__(self, "host", LOOPBACK)
        if self.host not in HOSTS:
            raise ValueError(f"host {self.host}: {LOOPBACK} (this machine alone), 0.0.0.0 or :: (every network)")
        for name in ("max_batch_size", "workers_per_device", "max_request_bytes", "max_pixels", "queue", "top"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)}: at least 1")
        if self.batch_timeout < 0 or self.timeout <= 0:
            raise ValueError(f"batch_timeout {self.batch_timeout}: 0 or more; timeout {self.timeout}: above 0; seconds")
        if self.token is not None and not self.token.strip():
            raise ValueError("the token is empty: give one of at least a few characters, or none at all")
        if self.token is not None and not (self.token.isascii() and self.token.isprintable()):
            raise ValueError("the token has characters that HTTP does not carry as they are: use ASCII alone")
        if self.accelerator not in ("auto", "cpu", "gpu", "cuda", "mps"):
            raise ValueError(f"accelerator {self.accelerator}: cpu, gpu, mps or auto")
        if self.accelerator in ("gpu", "cuda") and not torch.cuda.is_available():
            raise ValueError(f"accelerator {self.accelerator}: torch sees no GPU here; use cpu or auto")
        if self.devices != "auto" and not (str(self.devices).isdigit() and int(self.devices) > 0):
            raise ValueError(f"devices {self.devices}: a number from 1 up, or auto")
        if isinstance(self.views, int) and self.views < 1:
            raise ValueError(f'views {self.views}: a number from 1 up, or "auto"')

    @property
    def open_to_others(self) -> bool:
        """Whether other machines can reach it and nothing asks who they are."""
        return not is_loopback(self.host) and self.token is None


def build(model: TokenSTN, path: Path, settings: ServerSettings, when_ready: Callable[[], None]) -> litserve.LitServer:
    """A server with its endpoints; nothing is started yet.

    Args:
        model: what the workers will load from ``path``, a model folder or an exported file.
        when_ready: called once, when requests are answered, in the process that speaks HTTP.
    """
    preprocessing = preprocessing_of(model, str(path))
    estimated = tuple(primitive.name for primitive in model.primitives)
    rules = Rules(
        Limits(settings.max_request_bytes, settings.max_pixels), settings.queue, settings.timeout, settings.token,
        loopback=is_loopback(settings.host),
    )  # fmt: skip
    worker = ModelWorker(
        str(path), views=settings.views, top=settings.top, max_batch_size=settings.max_batch_size,
        batch_timeout=settings.batch_timeout, timeout=settings.timeout, authorize=rules.authorize,
    )  # fmt: skip
    devices: Any = settings.devices
    accelerator: Any = {"gpu": "cuda"}.get(settings.accelerator, settings.accelerator)
    server = litserve.LitServer(
        worker,
        accelerator=accelerator,
        devices=devices,
        workers_per_device=settings.workers_per_device,
        timeout=False,  # the front tells its clients
        model_metadata={
            "model": path.name,
            "tokenstn": tokenstn.__version__,
            "classes": list(model.classes or ()),
            "estimated": list(estimated),
            "poses": model.poses,
            "views": settings.views or "auto",
        },
    )
    reference = Reference.read(path if path.is_dir() else path.parent)
    metrics = Metrics(model.classes or (), estimated, reference)
    assert worker.spec is not None
    front = Front(server.app, worker.spec, preprocessing, rules, metrics)
    front.when_ready = when_ready
    register(front)
    return server


def run(server: litserve.LitServer, settings: ServerSettings) -> None:
    """Serve until SIGTERM or Ctrl+C; what was accepted by then is answered first."""
    require_free(settings.host, settings.port)
    # strangers could fill the disk with warnings about what they send
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.levelno >= logging.ERROR)
    watch = Watch(server)
    crowd = crowd_for(settings.queue, SECONDS_FOR_BODY + 5, settings.timeout + 30)
    with _one_thread(), _one_end(watch), watch:
        server.run(
            host=settings.host, port=settings.port, num_api_servers=1, log_level="warning",
            generate_client_file=False, access_log=False, http=crowd.protocol, ws="none",
        )  # fmt: skip


@contextmanager
def _one_end(watch: Watch) -> Iterator[None]:
    """SIGTERM ends the server as Ctrl+C does. Further ones change nothing: it is ending."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    starter = os.getpid()

    def end(*_: Any) -> None:
        if os.getpid() != starter:  # the process that speaks HTTP has finished its requests, and inherits this
            os._exit(0)
        for ending in (signal.SIGTERM, signal.SIGINT):
            signal.signal(ending, signal.SIG_IGN)
        watch.ending.set()
        raise KeyboardInterrupt

    before = {ending: signal.signal(ending, end) for ending in (signal.SIGTERM, signal.SIGINT)}
    try:
        with suppress(KeyboardInterrupt):  # before all workers were there
            yield
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)


@contextmanager
def _one_thread() -> Iterator[None]:
    """For the process that speaks HTTP, which is forked: more threads of torch than one do not survive that."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
