"""Is the server the same after ten minutes of more requests than it can answer, and who suffers from slow clients?

    python benchmarks/reliability/load.py                  # ten minutes at saturation, about fifteen in all
    python benchmarks/reliability/load.py --seconds 30     # a rehearsal

Runs ``tokenstn serve`` with the model inside the package and more clients than may wait, each with its own connection.
Every answer is compared with the offline one; the memory of all the server's processes and the length of its queue are
looked at all the time. Then come a flood of connections, clients that trickle and clients that say nothing at all.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from record import Drill

sys.path.append(str(Path(__file__).parents[1]))
import server_load as load

from tokenstn.apps.connections import HEAD_SECONDS, MOST
from tokenstn.apps.embedded import embedded_model
from tokenstn.apps.upload import SECONDS_FOR_BODY

QUEUE, CLIENTS = 64, 96
SLOW = 3 * QUEUE  # clients of each slow kind
WARM_UP = 60.0  # seconds until caches and pools are full
GROWTH = 0.03  # of the memory: what still counts as flat
QUICKLY_MS = 1000.0  # a refusal, with clients, server and model on the same cores


@dataclass
class Watcher:
    """Looks at the server every second: megabytes by process (shared pages in parts), and requests in flight."""

    address: str
    memory: list[tuple[float, dict[int, float]]] = field(default_factory=list)
    in_flight: list[float] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        start = time.monotonic()
        while not self.ending.wait(1.0):
            self.memory.append((time.monotonic() - start, memory_of(descendants())))
            self.in_flight.append(metric(self.address, "tokenstn_requests_in_flight"))


@contextmanager
def watching(address: str) -> Iterator[Watcher]:
    watcher = Watcher(address)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    try:
        yield watcher
    finally:
        watcher.ending.set()
        thread.join()


def descendants() -> list[int]:
    """The processes that come from this one: the server, whoever speaks HTTP, the worker, the queues."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:  # it ended meanwhile
            continue
    found, left = [], [int(Path("/proc/self").resolve().name)]
    while left:
        parent = left.pop()
        children = [child for child, its in parents.items() if its == parent]
        found += children
        left += children
    return found


def memory_of(processes: list[int]) -> dict[int, float]:
    """Proportional set size in megabytes."""
    found = {}
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        found[process] = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return found


def metric(address: str, name: str, labels: str = "") -> float:
    """A number of /metrics; 0 where it is not there yet."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as page:
        for line in page.read().decode().splitlines():
            if line.startswith(f"{name}{labels} "):
                return float(line.rsplit(" ", 1)[1])
    return 0.0


def growth(samples: list[tuple[float, dict[int, float]]]) -> tuple[float, float, float]:
    """Memory of all processes after the warm-up and at the end, in megabytes, and the share it grew by."""
    totals = [(at, sum(sizes.values())) for at, sizes in samples]
    warm = [total for at, total in totals if at > min(WARM_UP, totals[-1][0] / 3)]
    part = max(1, len(warm) // 5)
    before, after = statistics.median(warm[:part]), statistics.median(warm[-part:])
    return before, after, after / before - 1


def connect(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def closed_after(connections: list[socket.socket], seconds: float) -> int:
    """How many of the connections the server has closed by then."""
    until, closed = time.monotonic() + seconds, 0
    for connection in connections:
        connection.settimeout(max(0.05, until - time.monotonic()))
        try:
            while connection.recv(4096):
                pass  # an answer that says why
            closed += 1
        except ConnectionResetError:
            closed += 1
        except TimeoutError:
            continue
    return closed


def saturate(drill: Drill, address: str, files: list[bytes], expected: list[dict], seconds: float) -> None:
    load.storm(address, files, expected, CLIENTS, min(10.0, seconds))
    before = metric(address, "tokenstn_requests_total", '{status="200"}')
    with watching(address) as watcher:
        found = load.storm(address, files, expected, CLIENTS, seconds)
    counted = metric(address, "tokenstn_requests_total", '{status="200"}') - before
    start, end, share = growth(watcher.memory)
    drill.found(
        f"every answer under load is the offline answer, and nothing fails ({CLIENTS} clients, queue of {QUEUE})",
        f"{found.answered:,} answers in {found.seconds:.0f} s, {found.different} differ by more than "
        f"{load.TOLERANCE}, {sum(found.failed.values())} failed",
        found.different == 0 and not found.failed,
    )  # fmt: skip
    drill.found(
        "no accepted request is lost",
        f"the server counted {counted:,.0f} answers, the clients received {found.answered:,}; "
        f"{metric(address, 'tokenstn_requests_in_flight'):.0f} in flight afterwards",
        counted == found.answered and metric(address, "tokenstn_requests_in_flight") == 0,
    )
    drill.found(
        "the queue is bounded", f"at most {max(watcher.in_flight):.0f} requests in flight, {QUEUE} allowed",
        max(watcher.in_flight) <= QUEUE,
    )  # fmt: skip
    refused = found.refused_percentile_99_ms
    drill.found(
        "overload is answered quickly, with 503",
        f"{found.refused:,} refusals, 99 of 100 within {refused} ms (answers: {found.percentile_99_ms} ms)",
        refused is not None and refused <= min(QUICKLY_MS, found.percentile_99_ms),
    )
    drill.found(
        "memory of all its processes is flat",
        f"{len(watcher.memory[-1][1])} processes, {start:.0f} MB after the warm-up, {end:.0f} MB at the end "
        f"({100 * share:+.1f} %, {len(watcher.memory)} looks)",
        share <= GROWTH,
    )  # fmt: skip


def flood_and_recover(drill: Drill, address: str, files: list[bytes], expected: list[dict]) -> None:
    start = time.monotonic()
    statuses: dict[int, int] = {}
    for _ in range(5):
        for status, count in load.flood(address, files[1], 800).items():
            statuses[status] = statuses.get(status, 0) + count
    took = time.monotonic() - start
    told = ", ".join(f"{count:,} × {status}" for status, count in sorted(statuses.items()))
    kept = set(statuses) <= {200, 503} and sum(statuses.values()) == 4000
    drill.found(
        "each request of a flood is answered or refused", f"5 × 800 connections at once: {told}; {took:.0f} s", kept
    )
    after = load.storm(address, files, expected, 16, 10)
    drill.found(
        "after the flood it is as before", f"{after.answered:,} answers, {after.different} differ, "
        f"{after.refused + sum(after.failed.values())} refused or failed",
        after.answered > 0 and not after.failed and not after.refused and after.different == 0,
    )  # fmt: skip


def slow_clients(drill: Drill, address: str, files: list[bytes], expected: list[dict]) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\nContent-Length: 100000\r\n\r\n"
    alone = load.storm(address, files, expected, 16, 15)
    with ExitStack() as open_ones:
        bodies, heads, silent = (
            [open_ones.enter_context(connect(address)) for _ in range(SLOW)] for _ in range(3)
        )  # fmt: skip
        for connection in bodies:
            connection.sendall(head)
        going = threading.Event()
        trickle = threading.Thread(target=_trickle, args=(bodies, heads, going))
        trickle.start()
        beside = load.storm(address, files, expected, 16, 15)
        going.set()
        trickle.join()
        gone = closed_after([*silent, *heads], HEAD_SECONDS + 5)
        late = closed_after(bodies, SECONDS_FOR_BODY + 15)
    drill.found(
        "slow and half-open clients block nobody",
        f"{SLOW} trickle a body, {SLOW} a head, {SLOW} say nothing: 16 others get {beside.answered:,} answers in 15 s "
        f"({alone.answered:,} without them), {beside.refused + sum(beside.failed.values())} refused or failed",
        not beside.failed and not beside.refused and beside.different == 0 and beside.answered > alone.answered / 3,
    )
    drill.found(
        "slow and half-open clients are let go",
        f"{gone} of {2 * SLOW} without a head within {HEAD_SECONDS + 5:.0f} s, {late} of {SLOW} without a body within "
        f"{SECONDS_FOR_BODY + 15:.0f} s",
        gone == 2 * SLOW and late == SLOW,
    )


def _trickle(bodies: list[socket.socket], heads: list[socket.socket], going: threading.Event) -> None:
    """A byte for each of them every second."""
    for letter in b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: and so on for a long time":
        if going.wait(1.0):
            return
        for connection, byte in [*((one, b"x") for one in bodies), *((one, bytes([letter])) for one in heads)]:
            try:
                connection.sendall(byte)
            except OSError:  # it has been closed, as it should
                continue


def crowd(drill: Drill, address: str, files: list[bytes], expected: list[dict]) -> None:
    count = MOST + 400
    with ExitStack() as open_ones:
        for _ in range(count):
            open_ones.enter_context(connect(address))
        beside = load.storm(address, files, expected, 8, 5)
    drill.found(
        "more connections than it may have do not keep others out",
        f"{count:,} silent connections ({MOST:,} allowed): 8 others get {beside.answered:,} answers in 5 s, "
        f"{beside.refused + sum(beside.failed.values())} refused or failed",
        beside.answered > 0 and not beside.failed and beside.different == 0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    seconds = parser.parse_args().seconds
    files = load.pictures()
    expected = load.offline(embedded_model(), files)
    running = load.running(str(embedded_model()), f"--queue={QUEUE}")
    with Drill("load", "The server under load") as drill, running as address:
        saturate(drill, address, files, expected, seconds)
        flood_and_recover(drill, address, files, expected)
        slow_clients(drill, address, files, expected)
        crowd(drill, address, files, expected)
        last = metric(address, "tokenstn_requests_total", '{status="500"}')
        drill.found("the server has not failed once", f"{last:.0f} answers with status 500", last == 0)


if __name__ == "__main__":
    main()
