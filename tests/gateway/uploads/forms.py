"""Bodies of forms as clients write them, and files that are audio or say so."""

from __future__ import annotations

import io
import wave
from collections.abc import AsyncIterator, Iterable, Sequence
from email import message_from_bytes
from typing import Any

from gateway.upstream import fake

BOUNDARY = "a-boundary"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"
Part = tuple[str, bytes | str]


def form_body(
    texts: Sequence[Part] = (), files: Sequence[tuple[str, str, bytes]] = (), *, end: bool = True
) -> bytes:
    parts = [_part(f'name="{name}"', value) for name, value in texts]
    parts += [_part(f'name="{name}"; filename="{file}"', data) for name, file, data in files]
    return b"".join(parts) + (f"--{BOUNDARY}--\r\n".encode() if end else b"")


def _part(named: str, value: bytes | str) -> bytes:
    head = f"--{BOUNDARY}\r\ncontent-disposition: form-data; {named}\r\n\r\n"
    return head.encode() + (value.encode() if isinstance(value, str) else value) + b"\r\n"


def sent_parts(request: fake.Request) -> list[tuple[str, Any]]:
    """What a server got as a form, in its order: texts, and of files their name and content."""
    head = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
    parts = []
    for part in message_from_bytes(head + request.form).get_payload():
        name = part.get_param("name", header="content-disposition")
        content, file = part.get_payload(decode=True), part.get_filename()
        parts.append((name, (file, content) if file else content.decode()))
    return parts


async def in_pieces(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def wav(seconds: float, hertz: int = 8000, *, says: float | None = None) -> bytes:
    """Silence; `says`: how long it is by its own head."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(hertz)
        sound.writeframes(bytes(2 * int(seconds * hertz)))
    data = file.getvalue()
    if says is None:
        return data
    return data[:40] + (2 * int(says * hertz)).to_bytes(4, "little") + data[44:]


def mp3(frames: int) -> bytes:
    """128 kbit/s at 44.1 kHz: a frame is 1152 samples in 417 bytes."""
    return (b"\xff\xfb\x90\x00" + bytes(413)) * frames


def joined(pieces: Iterable[bytes]) -> bytes:
    return b"".join(pieces)
