"""Many clients at once: is every request answered, as it would be offline, and what is batching worth?

    python benchmarks/server_load.py --seconds 120

Starts ``tokenstn serve`` with the model inside the package (or ``--model``) on loopback. First 32 clients ask for a
while, each over its own connection, and every answer is compared with the offline prediction; the same once more with
batches of one image; then a flood of more requests than may wait, images above the limits, and files that are none.
Clients, server and model share the machine's cores, so that throughput here is a lower bound.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

import tokenstn
from tokenstn.apps.answer import describe, look, prepare
from tokenstn.apps.client import Client, ServerRefusedError
from tokenstn.data import read_image, read_mnist_mini
from tokenstn.models.preprocessing import preprocessing_of

TOLERANCE = 1e-4  # of probabilities; batches of another size round differently


@dataclass(frozen=True)
class Storm:
    """What happened while many clients asked at once. refused: too many were waiting; failed: anything else."""

    clients: int
    seconds: float
    answered: int
    refused: int
    failed: dict[str, int]
    different: int
    largest_difference: float
    per_second: float
    median_ms: float
    percentile_99_ms: float
    refused_percentile_99_ms: float | None


def pictures(count: int = 64, seed: int = 0) -> list[bytes]:
    """Turned digits of several sizes and shapes, as PNG and JPEG files."""
    digits = read_mnist_mini()
    draw = torch.Generator().manual_seed(seed)
    files = []
    for k, row in enumerate(digits.split("test")[:count].tolist()):
        digit = Image.fromarray(digits.read(row, 1)[0].numpy())
        side = (28, 96, 240)[k % 3]
        angle = float(360 * torch.rand((), generator=draw))
        photo = Image.new("L", (side + side // 2 * (k % 2), side))
        photo.paste(digit.resize((side, side), Image.Resampling.BICUBIC).rotate(angle), (side // 4 * (k % 2), 0))
        file = io.BytesIO()
        photo.save(file, "PNG" if k % 4 else "JPEG")
        files.append(file.getvalue())
    return files


def offline(folder: Path, files: list[bytes]) -> list[dict[str, Any]]:
    """The answers of the model itself, one image at a time."""
    model = tokenstn.load(folder)
    preprocessing = preprocessing_of(model, str(folder))
    answers = []
    for file in files:
        photo = read_image(file, len(preprocessing.mean))
        prediction = look(model, prepare(photo, preprocessing).unsqueeze(0), preprocessing)
        answers += describe(model, prediction, [(photo.shape[1], photo.shape[2])], preprocessing)
    return answers


def difference(answer: dict[str, Any], expected: dict[str, Any]) -> float:
    """Between two answers: the largest of their probabilities; infinite where class, views or flags differ."""
    same = ("prediction", "views", "pose_ambiguous", "class_uncertain", "photo_px", "mirrored")
    if any(answer[name] != expected[name] for name in same):
        return float("inf")
    one, other = ({item["class"]: item["probability"] for item in given["top"]} for given in (answer, expected))
    turned = abs((answer["rotation_deg"] - expected["rotation_deg"] + 180) % 360 - 180) / 180
    return max(turned, *(abs(one[name] - other[name]) for name in one.keys() & other.keys()))


def storm(
    address: str, files: list[bytes], expected: list[dict[str, Any]], clients: int, seconds: float,
    token: str | None = None,
) -> Storm:  # fmt: skip
    """Let clients ask for some seconds, each as soon as it has its answer, and compare every answer.

    Who is told that too many are waiting tries again after a tenth of a second.
    """
    lock, times, failed, differences, refusals = threading.Lock(), [], Counter(), [], []
    until = time.monotonic() + seconds

    def ask(first: int) -> None:
        client, k = Client(address, token), first
        while time.monotonic() < until:
            k = (k + 1) % len(files)
            start = time.perf_counter()
            try:
                answer = client.predict(files[k])
            except (ServerRefusedError, OSError) as error:
                took = time.perf_counter() - start
                with lock:
                    if getattr(error, "status", None) == 503:
                        refusals.append(took)
                    else:
                        failed[str(error)] += 1
                time.sleep(0.1)
                continue
            took = time.perf_counter() - start
            apart = difference(answer, expected[k])
            with lock:
                times.append(took)
                differences.append(apart)
        client.close()

    start = time.monotonic()
    everyone = [threading.Thread(target=ask, args=(2 * k,)) for k in range(clients)]
    for one in everyone:
        one.start()
    for one in everyone:
        one.join()
    took = time.monotonic() - start
    return Storm(
        clients=clients, seconds=round(took, 1), answered=len(times), refused=len(refusals), failed=dict(failed),
        different=sum(apart > TOLERANCE for apart in differences), largest_difference=max(differences, default=0.0),
        per_second=round(len(times) / took, 1), median_ms=round(1000 * statistics.median(times), 1),
        percentile_99_ms=_percentile_99_ms(times),
        refused_percentile_99_ms=_percentile_99_ms(refusals) if len(refusals) > 1 else None,
    )  # fmt: skip


def _percentile_99_ms(seconds: list[float]) -> float:
    return round(1000 * statistics.quantiles(seconds, n=100)[98], 1)


def flood(address: str, file: bytes, requests: int, token: str | None = None) -> dict[int, int]:
    """Send one request on each of many connections before reading any answer; how many got which status."""
    host, port = address.removeprefix("http://").split(":")
    head = f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: image/png\r\nContent-Length: {len(file)}\r\n"
    head += (f"Authorization: Bearer {token}\r\n" if token else "") + "Connection: close\r\n\r\n"
    connections = [socket.create_connection((host, int(port)), timeout=60) for _ in range(requests)]
    for connection in connections:
        connection.sendall(head.encode() + file)
    statuses: Counter[int] = Counter()
    for connection in connections:
        with connection, connection.makefile("rb") as answer:
            statuses[int(answer.readline().split()[1])] += 1
            body = answer.read().split(b"\r\n\r\n", 1)[1]
            json.loads(body)  # an answer or a reason, always JSON
    return dict(statuses)


@contextmanager
def running(model: str, *options: str, port: int | None = None, wait: float = 120) -> Iterator[str]:
    """``tokenstn serve`` as a process of its own, ready to answer; its address."""
    port = port or free_port()
    command = [sys.executable, "-m", "tokenstn.cli", "serve", model, f"--port={port}", *options]
    with subprocess.Popen(command, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        try:
            wait_until_ready("127.0.0.1", port, process, wait)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def wait_until_ready(host: str, port: int, process: subprocess.Popen, wait: float) -> None:
    """Until /health says so; an error when the process ends or nothing happens."""
    until = time.monotonic() + wait
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with code {process.returncode}")
        try:
            with socket.create_connection((host, port), timeout=5) as connection:
                connection.sendall(f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                if b" 200 " in connection.recv(64):
                    return
        except OSError:
            pass  # not listening yet
        time.sleep(0.2)
    raise RuntimeError(f"the server was not ready after {wait:.0f} seconds")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def status_of(address: str, file: bytes) -> tuple[int, str]:
    """The status that a file gets, and the reason."""
    try:
        Client(address).predict(file)
    except ServerRefusedError as refused:
        return refused.status, str(refused)
    return 200, ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=None, help="a model folder; the embedded one when left out")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--clients", type=int, default=32)
    given = parser.parse_args()
    if given.model is None:
        from tokenstn.apps.embedded import embedded_model

        given.model = str(embedded_model())
    files = pictures()
    expected = offline(Path(given.model), files)
    found: dict[str, Any] = {"cores": os.cpu_count(), "torch": torch.__version__}
    with running(given.model) as address:
        found["batched"] = asdict(storm(address, files, expected, given.clients, given.seconds))
        found["one client"] = asdict(storm(address, files, expected, 1, min(given.seconds, 15)))
    with running(given.model, "--max_batch_size=1") as address:
        found["one by one"] = asdict(storm(address, files, expected, given.clients, min(given.seconds, 30)))
    limits = ("--queue=64", "--max_request_bytes=100000", "--max_pixels=90000")
    with running(given.model, *limits) as address:
        large = io.BytesIO()
        Image.new("L", (400, 300)).save(large, "PNG")
        found["too many bytes"] = status_of(address, bytes(200_000))
        found["too many pixels"] = status_of(address, large.getvalue())
        found["no image"] = status_of(address, b"no image")
        found["flood of 400 with a queue of 64"] = flood(address, files[1], 400)
        found["after the flood"] = asdict(storm(address, files, expected, given.clients, min(given.seconds, 5)))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
