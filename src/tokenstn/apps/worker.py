"""The process that holds the model: it takes what has queued up, answers it as one batch, and waits for more."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

import litserve
import numpy as np
import torch
from litserve.loops.simple_loops import BatchedLoop
from litserve.specs.base import LitSpec

import tokenstn
from tokenstn.apps.answer import Answer, Size, describe, look
from tokenstn.models.preprocessing import preprocessing_of

IDLE_SECONDS = 1.0


@dataclass(frozen=True)
class Task:
    """A prepared image ``(C, h, w)`` uint8 on its way to a worker, and height and width of its photo."""

    image: np.ndarray
    photo_size: Size


@dataclass(frozen=True)
class Reply:
    """An answer; the first of a batch also says how many images that had, and how many seconds the model took."""

    answer: Answer
    batch: int | None = None
    seconds: float | None = None


class ModelWorker(litserve.LitAPI):
    """Loads the model on its device, and answers batches of tasks with replies.

    Args:
        model: a model folder or an exported file.
        timeout: seconds after which a request is not worth an answer.
        authorize: what LitServe asks before it answers /health and /info.
    """

    def __init__(
        self,
        model: str,
        *,
        views: int | str | None,
        top: int,
        max_batch_size: int,
        batch_timeout: float,
        timeout: float,
        authorize: Callable[..., None],
    ) -> None:
        loop: Any = PatientLoop(timeout)
        super().__init__(max_batch_size, batch_timeout, loop=loop, spec=FrontDoor())
        self.path, self.views, self.top, self.authorize = model, views, top, authorize

    def setup(self, device: str) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches every process: the first one ends the others
        self.model = tokenstn.load(self.path).to(device)
        self.preprocessing = preprocessing_of(self.model, self.path)

    def decode_request(self, request: Task, **_: Any) -> Task:
        return request

    def predict(self, x: list[Task], **_: Any) -> list[Reply]:
        start = time.perf_counter()
        images = torch.from_numpy(np.stack([task.image for task in x])).to(self.model.device)
        prediction = look(self.model, images, self.preprocessing, self.views)
        answers = describe(self.model, prediction, [task.photo_size for task in x], self.preprocessing, self.top)
        first = Reply(answers[0], len(x), time.perf_counter() - start)
        return [first, *(Reply(answer) for answer in answers[1:])]

    def encode_response(self, output: Reply, **_: Any) -> Reply:
        return output


class FrontDoor(LitSpec):
    """Says to LitServe that the endpoint is ours: requests are read, checked and counted before they queue up."""

    def __init__(self) -> None:
        super().__init__()
        self.api_path = "/predict"


class PatientLoop(BatchedLoop):
    """Sleeps until there is a request, then gathers more for ``batch_timeout``; LitServe's own asks all the time.

    Requests that waited longer than ``timeout`` seconds are dropped: their client has been told so.
    """

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self.timeout = timeout
        self.starter = os.getpid()  # of the process that starts the workers

    def get_batch_requests(self, lit_api: litserve.LitAPI, request_queue: Queue, transport: Any) -> tuple[list, list]:
        taken: list[tuple[Any, Any, Any]] = []
        try:
            with suppress(Empty):  # nothing (more) is waiting
                self._take(request_queue.get(timeout=IDLE_SECONDS), taken)
                deadline = time.monotonic() + lit_api.batch_timeout
                while len(taken) < lit_api.max_batch_size:
                    left = deadline - time.monotonic()
                    self._take(request_queue.get(timeout=left) if left > 0 else request_queue.get_nowait(), taken)
        except (EOFError, OSError):
            raise SystemExit(0) from None  # the queue is gone, and with it everyone who asks
        if os.getppid() != self.starter:
            raise SystemExit(0)
        return taken, []

    def _take(self, request: tuple[Any, Any, float, Any], taken: list[tuple[Any, Any, Any]]) -> None:
        consumer, uid, since, task = request
        if time.monotonic() - since <= self.timeout:
            taken.append((consumer, uid, task))
