"""An image out of an HTTP request, within limits: a file in a form, base64 in JSON, or the bytes as they are."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from types import TracebackType

from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect
from torch import Tensor

from tokenstn.apps.answer import Size, prepare
from tokenstn.data.images import decode
from tokenstn.data.opening import FORMATS, PIXEL_LIMIT, TooManyPixelsError, UnreadableImageError
from tokenstn.models import Preprocessing

FIELD = "image"
SECONDS_FOR_BODY = 30.0
BODY = {
    "required": True,
    "description": f"One image, {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.",
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": [FIELD],
                "properties": {FIELD: {"type": "string", "format": "binary", "description": "the file"}},
            }
        },
        "application/json": {
            "schema": {
                "type": "object",
                "required": [FIELD],
                "properties": {FIELD: {"type": "string", "format": "byte", "description": "the file in base64"}},
            }
        },
        "image/*": {"schema": {"type": "string", "format": "binary"}},
    },
}


@dataclass(frozen=True)
class Limits:
    """What one request may bring: bytes of its body, pixels of its image, seconds to send it."""

    request_bytes: int
    pixels: int
    seconds: float = SECONDS_FOR_BODY


class Room:
    """Memory for the requests of all clients together: what arrives takes of it, until its request is done.

    A request that trickles in holds the bytes that it has sent and no more, so that slow clients leave room for others.
    """

    def __init__(self, size: int) -> None:
        self.size, self.taken = size, 0


class Share:
    """What one request holds of a room, given back at the end of the block."""

    def __init__(self, room: Room) -> None:
        self.room, self.taken = room, 0

    def __enter__(self) -> Share:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.room.taken -= self.taken

    def take(self, count: int) -> None:
        """So many bytes more, or an HTTPException when there is no room."""
        if self.room.taken + count > self.room.size:
            raise HTTPException(
                503,
                f"{self.room.size:,} bytes of requests are waiting already, the limit of this server: try again later",
                headers={"Retry-After": "1"},
            )
        self.taken += count
        self.room.taken += count


async def image_bytes(request: Request, limits: Limits, share: Share) -> bytes:
    """The file in a request. What cannot be one is an HTTPException with the reason: 400, 408, 413, 415 or 503."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limits.request_bytes:
        raise _too_many_bytes(limits)
    try:
        async with asyncio.timeout(limits.seconds):
            return await _content(request, limits, share)
    except TimeoutError:
        raise HTTPException(
            408, f"the request did not arrive within {limits.seconds:.0f} seconds", headers={"Connection": "close"}
        ) from None
    except ClientDisconnect:
        raise HTTPException(400, "the client has gone before its request had arrived") from None


def prepared_image(content: bytes, preprocessing: Preprocessing, limits: Limits) -> tuple[Tensor, Size]:
    """Decode a file and bring it to the network's size: uint8 ``(C, h, w)``, and the photo's height and width.

    Raises:
        HTTPException: 413 for more pixels than allowed, which are not decoded, 422 for a file that is no image.
    """
    try:
        photo = decode(content, "the image", len(preprocessing.mean), min(limits.pixels, PIXEL_LIMIT))
    except TooManyPixelsError as error:
        raise HTTPException(413, f"the image is too large for this server: {error.reason}") from error
    except UnreadableImageError as error:
        raise HTTPException(422, f"the image cannot be read: {error.reason}") from error
    return prepare(photo, preprocessing), (photo.shape[1], photo.shape[2])


async def _content(request: Request, limits: Limits, share: Share) -> bytes:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _from_form(request, limits, share)
    if kind == "application/json":
        return await run_in_threadpool(_from_json, await _whole(request, limits, share))  # others go on meanwhile
    if kind.startswith("image/") or kind == "application/octet-stream":
        return await _whole(request, limits, share)
    raise HTTPException(
        415, f"content type {kind or 'missing'}: send multipart/form-data, application/json or the bytes as image/…"
    )


async def _from_form(request: Request, limits: Limits, share: Share) -> bytes:
    pieces = _pieces(request, limits, share)
    try:
        form = await MultiPartParser(request.headers, pieces, max_files=1, max_fields=8).parse()
    except (MultiPartException, KeyError) as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from error
    file = form.get(FIELD)
    if not isinstance(file, UploadFile):
        raise HTTPException(400, f'the form has no file named "{FIELD}": curl -F {FIELD}=@photo.jpg …')
    return await file.read()


def _from_json(body: bytes) -> bytes:
    try:
        document = json.loads(body)
        text = document[FIELD]
        # a data URL, as browsers make them, is welcome too
        return base64.b64decode(text.split(",", 1)[1] if text.startswith("data:") else text, validate=True)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, binascii.Error, RecursionError):
        raise HTTPException(400, f'JSON must be {{"{FIELD}": "…"}} with the file in base64') from None


async def _whole(request: Request, limits: Limits, share: Share) -> bytes:
    return b"".join([piece async for piece in _pieces(request, limits, share)])


async def _pieces(request: Request, limits: Limits, share: Share) -> AsyncGenerator[bytes, None]:
    """The body as it arrives, no more of it than allowed, whatever was announced."""
    arrived = 0
    async for piece in request.stream():
        arrived += len(piece)
        if arrived > limits.request_bytes:
            raise _too_many_bytes(limits)
        share.take(len(piece))
        yield piece


def _too_many_bytes(limits: Limits) -> HTTPException:
    return HTTPException(413, f"the request has more than {limits.request_bytes:,} bytes, the limit of this server")
