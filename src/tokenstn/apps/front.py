"""The process that speaks HTTP: it refuses what is not allowed, prepares images, queues them and hands answers out."""

from __future__ import annotations

import asyncio
import hmac
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from litserve.specs.base import LitSpec
from litserve.utils import LitAPIStatus, ResponseBufferItem
from starlette.exceptions import HTTPException as StarletteHTTPException

from tokenstn.apps.answer import Answer
from tokenstn.apps.loopback import OWN_NAMES, asks_for_us
from tokenstn.apps.metrics import CONTENT_TYPE, Metrics
from tokenstn.apps.schema import PROBLEMS, PredictAnswer, Problem
from tokenstn.apps.upload import BODY, Limits, Room, Share, image_bytes, prepared_image
from tokenstn.apps.worker import Reply, Task
from tokenstn.models import Preprocessing

_REPLACED = ("/", "/docs", "/redoc", "/docs/oauth2-redirect")
OPEN_PATHS = ("/health", "/docs", "/openapi.json")  # what needs no token


@dataclass(frozen=True)
class Rules:
    """What the server allows.

    queue: requests that are answered or wait for it; timeout: seconds for an answer; token: None = anybody; loopback:
    whether only this machine is to reach it.
    """

    limits: Limits
    queue: int
    timeout: float
    token: str | None
    loopback: bool = False

    def authorize(self, request: Request) -> None:
        """Refuse a request without the bearer token, where there is one; without one, pages of other sites."""
        if request.scope["path"] in OPEN_PATHS:  # request.url would believe what the client says in Host
            return
        if self.token is None:
            self._require_own_name(request)
            return
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self.token.encode()):
            raise HTTPException(
                401,
                "this server wants a token: send the header Authorization: Bearer …",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _require_own_name(self, request: Request) -> None:
        if self.loopback and not asks_for_us(request.headers.get("host", "")):
            raise HTTPException(403, f"this server answers requests to {', '.join(OWN_NAMES)} alone; or set a token")


class Front:
    """The endpoints, on LitServe's own application.

    Args:
        app: LitServe's.
        door: through which requests reach the workers.
    """

    def __init__(
        self, app: FastAPI, door: LitSpec, preprocessing: Preprocessing, rules: Rules, metrics: Metrics
    ) -> None:
        self.app, self.door, self.preprocessing, self.rules, self.metrics = app, door, preprocessing, rules, metrics
        self.threads: ThreadPoolExecutor | None = None
        self.when_ready: Callable[[], None] = lambda: None
        self.in_flight = 0
        self.room = Room(rules.queue * rules.limits.request_bytes)
        metrics.room.set(rules.queue)

    async def predict(self, request: Request) -> Answer:
        """The class of an image, and how its object sits in it."""
        self._require_place()  # before the image is read, and after: slow clients hold no place meanwhile
        start = time.perf_counter()
        with Share(self.room) as share:
            content = await image_bytes(request, self.rules.limits, share)
            self._require_place()
            self._count(+1)
            try:
                reply = await self._in_time(content)
            finally:
                self._count(-1)
                self.metrics.seconds.observe(time.perf_counter() - start)
        if reply.batch is not None and reply.seconds is not None:
            self.metrics.batch.observe(reply.batch)
            self.metrics.model_seconds.observe(reply.seconds)
        self.metrics.answered(reply.answer)
        self.metrics.requests.labels(200).inc()
        return reply.answer

    async def show_metrics(self) -> Response:
        """Counters and distributions for Prometheus."""
        return Response(self.metrics.page(), media_type=CONTENT_TYPE)

    async def refuse(self, request: Request, problem: Exception) -> JSONResponse:
        """The reason why a request got no answer, as JSON."""
        known = problem if isinstance(problem, StarletteHTTPException) else None
        status = 500 if known is None else known.status_code
        if request.url.path == "/predict":
            self.metrics.requests.labels(status).inc()
        reason = "something broke; the server's log says what" if known is None else str(known.detail)
        content = Problem(status=status, detail=reason).model_dump()
        return JSONResponse(content, status, headers=None if known is None else known.headers)

    async def _in_time(self, content: bytes) -> Reply:
        """Decode an image and let a worker answer, or say that it took too long."""
        work = partial(prepared_image, content, self.preprocessing, self.rules.limits)
        try:
            async with asyncio.timeout(self.rules.timeout):
                image, size = await asyncio.get_running_loop().run_in_executor(self.threads, work)
                return await self._answer(Task(image.numpy(), size))
        except TimeoutError:
            raise HTTPException(504, f"there was no answer within {self.rules.timeout:g} seconds: try again") from None

    async def _answer(self, task: Task) -> Reply:
        uid, arrived = str(uuid.uuid4()), asyncio.Event()
        waiting: dict[str, ResponseBufferItem] = self.door.response_buffer  # type: ignore[assignment]
        waiting[uid] = ResponseBufferItem(arrived)
        queue: Any = self.door.request_queue
        consumer = self.app.response_queue_id  # type: ignore[attr-defined]
        queue.put((consumer, uid, time.monotonic(), task))
        try:
            await arrived.wait()
        finally:
            item = waiting.pop(uid)
        assert item.response is not None
        reply, status = item.response
        if status == LitAPIStatus.ERROR:  # the worker has written the traceback
            raise HTTPException(500, "the model failed on this request; the server's log says how")
        return reply

    def _require_place(self) -> None:
        if self.in_flight >= self.rules.queue:
            raise HTTPException(
                503,
                f"{self.in_flight} requests are waiting already, the limit of this server: try again later",
                headers={"Retry-After": "1"},
            )

    def _count(self, change: int) -> None:
        self.in_flight += change
        self.metrics.in_flight.set(self.in_flight)

    @asynccontextmanager
    async def lifespan(self, inner: Callable[[FastAPI], Any], starter: int, app: FastAPI) -> AsyncIterator[None]:
        """Around LitServe's own: threads that decode images, and an end when whoever started this process is gone."""
        async with inner(app):
            self.threads = ThreadPoolExecutor(min(8, 2 + (os.cpu_count() or 1)), "decode")
            watch = asyncio.create_task(_leave_with(starter))
            self.when_ready()
            try:
                yield
            finally:
                watch.cancel()
                self.threads.shutdown(wait=False)


def register(front: Front) -> None:
    """Put the endpoints on the application, and our pages in the place of those that load scripts from elsewhere."""
    app = front.app
    app.title = "TokenSTN"
    app.description = "Image classification that does not depend on how the camera was held."
    app.router.routes = [route for route in app.router.routes if getattr(route, "path", "") not in _REPLACED]
    refused: dict[int | str, dict[str, Any]] = {
        code: {"description": text, "model": Problem} for code, text in PROBLEMS.items()
    }
    allowed = [Depends(front.rules.authorize)]
    app.add_api_route(
        "/predict", front.predict, methods=["POST"], response_model=PredictAnswer, responses=refused,
        dependencies=allowed, openapi_extra={"requestBody": BODY}, tags=["model"],
    )  # fmt: skip
    app.add_api_route("/metrics", front.show_metrics, dependencies=allowed, response_class=Response, tags=["operation"])
    page = (files("tokenstn.apps") / "page" / "api.html").read_text(encoding="utf-8")
    app.add_api_route("/docs", lambda: HTMLResponse(page), include_in_schema=False)
    app.add_api_route("/", lambda: HTMLResponse(page), include_in_schema=False)
    app.router.lifespan_context = partial(front.lifespan, app.router.lifespan_context, os.getpid())
    app.add_exception_handler(StarletteHTTPException, front.refuse)
    app.add_exception_handler(Exception, front.refuse)


async def _leave_with(starter: int) -> None:
    """End this process in good order when the one that started it has died without doing so."""
    while os.getppid() == starter:
        await asyncio.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
