"""Small pictures that are what they say, and a server that makes them: built from OpenAI's
published document, for no image model runs here."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from gateway.upstream import fake
from tests.openai_api.valid import assert_valid

JSON = (("content-type", "application/json"),)


def png(width: int = 4, height: int = 4) -> bytes:
    """A red square."""
    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


BASE64 = b64encode(png()).decode()
MADE = {"b64_json": BASE64}
AT_URL = {"url": "https://images.example/1.png", "revised_prompt": "a red square"}
USED = {
    "input_tokens": 5,
    "output_tokens": 1056,
    "total_tokens": 1061,
    "input_tokens_details": {"text_tokens": 5, "image_tokens": 0},
}


def answer(**document: Any) -> fake.Script:
    return fake.Script([fake.Send(json.dumps(document).encode())], headers=JSON)


def makes(*images: dict[str, Any], **said: Any) -> Callable[[fake.Request], fake.Script]:
    """A server that makes these, whatever it is asked for that the document has."""
    document = {"created": 1, "data": list(images), **said}
    assert_valid("ImagesResponse", document)

    def behave(request: fake.Request) -> fake.Script:
        assert_valid("CreateImageRequest", request.body)
        return answer(**document)

    return behave


def says(**document: Any) -> Callable[[fake.Request], fake.Script]:
    return lambda _: answer(**document)
