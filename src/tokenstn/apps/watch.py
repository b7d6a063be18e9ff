"""Workers that die are replaced, until the server ends."""

from __future__ import annotations

import logging
import threading

import litserve

SECONDS = 1.0


class Watch:
    """Looks at the workers once a second, in a thread of its own.

    LitServe's own watch goes on while the server ends: it replaces workers that were told to go, or falls over the
    queue that is no more.
    """

    def __init__(self, server: litserve.LitServer) -> None:
        server._monitor_workers = False  # LitServe's own
        self.server = server
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._look, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever still runs is told to go: there are such workers when the start was interrupted."""
        self.ending.set()
        self.thread.join()
        for worker in self._workers():
            if worker.is_alive():
                worker.terminate()

    def _look(self) -> None:
        api = self.server.litapi_connector.lit_apis[0]
        while not self.ending.wait(SECONDS):
            for place, worker in enumerate(self._workers()):
                if not worker.is_alive() and not self.ending.is_set():
                    logging.getLogger("litserve").warning(
                        "a worker ended with code %s: starting another", worker.exitcode
                    )
                    self.server.inference_workers[place] = self.server.launch_single_inference_worker(api, place)

    def _workers(self) -> list:
        return getattr(self.server, "inference_workers", [])
