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
from tests.gateway.uploads.forms import sent_parts
from tests.openai_api.valid import assert_valid

JSON = (("content-type", "application/json"),)


def png(width: int = 4, height: int = 4, *, comment: bytes = b"") -> bytes:
    """A red square; `comment`: what makes it larger."""
    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(rows)
    parts = ((b"IHDR", head), (b"teXt", comment), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def jpeg(width: int = 4, height: int = 4) -> bytes:
    """Its heads, and coded bytes that stand for nothing."""
    thumbnail = b"\xff\xe1\0\x06\xff\xd9ab"
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 8, 8, height, width, 1)
    return b"\xff\xd8" + thumbnail + b"\xff" + frame + b"\xff\xda\0\x02" + bytes(40) + b"\xff\xd9"


def webp(width: int = 4, height: int = 4, kind: bytes = b"VP8L") -> bytes:
    """The same of one that is without loss, with it, or has more about it."""
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    heads = {
        b"VP8L": b"\x2f" + (width - 1 | (height - 1) << 14).to_bytes(4, "little"),
        b"VP8 ": b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height),
        b"VP8X": bytes(4) + sides,
    }
    chunks = _riff(kind, heads[kind] + bytes(5) * (kind != b"VP8X"))
    if kind == b"VP8X":
        chunks += _riff(b"EXIF", b"odd") + _riff(b"VP8L", heads[b"VP8L"] + bytes(6))
    return _riff(b"RIFF", b"WEBP" + chunks)


def _riff(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


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
        if request.form:
            assert_valid("CreateImageEditRequest", fields_sent(request))
        else:
            assert_valid("CreateImageRequest", request.body)
        return answer(**document)

    return behave


def fields_sent(request: fake.Request) -> dict[str, Any]:
    """A form as OpenAI's document has it: images by the names of their files."""
    fields: dict[str, Any] = {}
    for name, value in sent_parts(request):
        content = value[0] if isinstance(value, tuple) else value
        if name.endswith("[]"):
            fields.setdefault(name.removesuffix("[]"), []).append(content)
        else:
            assert name not in fields
            fields[name] = int(content) if name == "n" else content
    return fields


def says(**document: Any) -> Callable[[fake.Request], fake.Script]:
    return lambda _: answer(**document)
