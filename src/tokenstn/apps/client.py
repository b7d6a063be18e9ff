"""A client for ``tokenstn serve``, with nothing but the standard library.

    curl -F image=@photo.jpg http://127.0.0.1:8000/predict
    curl -F image=@photo.jpg -H "Authorization: Bearer $TOKENSTN_TOKEN" https://models.example.org/predict

or, from Python:

    from tokenstn.apps.client import predict
    predict("photo.jpg")["prediction"]
"""

from __future__ import annotations

import json
import os
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class ServerRefusedError(Exception):
    """The server gave no answer. ``status`` is HTTP's, the message its reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status


class Client:
    """Asks one server over one connection, which is kept; not for several threads at once.

    Args:
        address: with the scheme, such as http://127.0.0.1:8000.
        token: where the server wants one; TOKENSTN_TOKEN of the environment when left out.
        timeout: seconds.
    """

    def __init__(self, address: str = "http://127.0.0.1:8000", token: str | None = None, timeout: float = 60) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"address {address}: such as http://127.0.0.1:8000")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self.connection = kind(parts.hostname, parts.port, timeout=timeout)
        self.path = parts.path.rstrip("/") + "/predict"
        token = token or os.environ.get("TOKENSTN_TOKEN")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def predict(self, image: str | Path | bytes) -> dict[str, Any]:
        """The answer for an image file, or the bytes of one.

        Raises:
            ServerRefusedError: with the status and the server's reason.
            OSError: when there is no server, or no such file.
        """
        content = image if isinstance(image, bytes) else Path(image).read_bytes()
        try:
            status, body = self._post(content)
        except (HTTPException, ConnectionError):  # a kept connection may have been closed meanwhile
            self.connection.close()
            status, body = self._post(content)
        try:
            document = json.loads(body)
        except ValueError:
            document = {"detail": body[:200].decode("utf-8", "replace")}
        if status != 200:
            self.connection.close()  # the server may not have read all of the request
            raise ServerRefusedError(status, document.get("detail", "no reason was given"))
        return document

    def close(self) -> None:
        """Give the connection back."""
        self.connection.close()

    def _post(self, content: bytes) -> tuple[int, bytes]:
        headers = {**self.headers, "Content-Type": "application/octet-stream"}
        try:
            self.connection.request("POST", self.path, body=content, headers=headers)
        except (BrokenPipeError, ConnectionResetError):
            if self.connection.sock is None:
                raise
            # refused while it was being sent: the reason may have arrived
        response = self.connection.getresponse()
        return response.status, response.read()


def predict(
    image: str | Path | bytes, address: str = "http://127.0.0.1:8000", token: str | None = None, timeout: float = 60
) -> dict[str, Any]:
    """Ask a server once; see :class:`Client`."""
    client = Client(address, token, timeout)
    try:
        return client.predict(image)
    finally:
        client.close()
