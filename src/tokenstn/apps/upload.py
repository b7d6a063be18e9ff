"""An image out of an HTTP request, within limits: a file in a form, base64 in JSON, or the bytes as they are."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import json
import warnings
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from fastapi import HTTPException, Request
from PIL import Image
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from torch import Tensor

from tokenstn.apps.answer import Size, prepare
from tokenstn.data import UnreadableImageError, read_image
from tokenstn.models import Preprocessing

FIELD = "image"
BODY = {
    "required": True,
    "description": "One image in any format that Pillow reads.",
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
    seconds: float = 30.0


async def image_bytes(request: Request, limits: Limits) -> bytes:
    """The file in a request. What cannot be one is an HTTPException with the reason: 400, 408, 413 or 415."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limits.request_bytes:
        raise _too_many_bytes(limits)
    try:
        async with asyncio.timeout(limits.seconds):
            return await _content(request, limits)
    except TimeoutError:
        raise HTTPException(408, f"the request did not arrive within {limits.seconds:.0f} seconds") from None


def prepared_image(content: bytes, preprocessing: Preprocessing, limits: Limits) -> tuple[Tensor, Size]:
    """Decode a file and bring it to the network's size: uint8 ``(C, h, w)``, and the photo's height and width.

    Raises:
        HTTPException: 413 for more pixels than allowed, which are not decoded, 422 for a file that is no image.
    """
    _require_few_pixels(content, limits)
    try:
        photo = read_image(content, len(preprocessing.mean))
    except UnreadableImageError as error:
        raise HTTPException(422, f"the image cannot be read: {error.reason}") from error
    return prepare(photo, preprocessing), (photo.shape[1], photo.shape[2])


async def _content(request: Request, limits: Limits) -> bytes:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _from_form(request, limits)
    if kind == "application/json":
        return _from_json(await _whole(request, limits))
    if kind.startswith("image/") or kind == "application/octet-stream":
        return await _whole(request, limits)
    raise HTTPException(
        415, f"content type {kind or 'missing'}: send multipart/form-data, application/json or the bytes as image/…"
    )


async def _from_form(request: Request, limits: Limits) -> bytes:
    try:
        form = await MultiPartParser(request.headers, _pieces(request, limits), max_files=1, max_fields=8).parse()
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


async def _whole(request: Request, limits: Limits) -> bytes:
    return b"".join([piece async for piece in _pieces(request, limits)])


async def _pieces(request: Request, limits: Limits) -> AsyncGenerator[bytes, None]:
    """The body as it arrives, no more of it than allowed, whatever was announced."""
    arrived = 0
    async for piece in request.stream():
        arrived += len(piece)
        if arrived > limits.request_bytes:
            raise _too_many_bytes(limits)
        yield piece


def _too_many_bytes(limits: Limits) -> HTTPException:
    return HTTPException(413, f"the request has more than {limits.request_bytes:,} bytes, the limit of this server")


def _require_few_pixels(content: bytes, limits: Limits) -> None:
    """Look at the header alone; what has none is refused later, by whoever decodes it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content)) as image:
                width, height = image.size
    except Image.DecompressionBombError:
        raise HTTPException(
            413, f"the image has more than {limits.pixels:,} pixels, the limit of this server"
        ) from None
    except Exception:  # decoders of broken files raise whatever they stumble over
        return
    if width * height > limits.pixels:
        raise HTTPException(413, f"{width} × {height} pixels are more than {limits.pixels:,}, the limit of this server")
