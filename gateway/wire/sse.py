"""Server-sent events, both ways: a decoder that does not care how TCP cut the bytes, an encoder.

Only `data:` lines matter to OpenAI-shaped streams; comments and other fields are passed over.
"""

from collections.abc import Iterator

DONE = b"[DONE]"
EVENT_BYTES_MAX = 4 * 1024 * 1024


class EventTooLarge(ValueError):
    """An upstream sent one event beyond `EVENT_BYTES_MAX`; the stream is not to be trusted."""


class SseDecoder:
    """Feed bytes as they come, get the payload of every finished event.

    Bytes are copied at most twice; what is kept is the unfinished event, its line
    and its lines each bounded by `EVENT_BYTES_MAX`.
    """

    def __init__(self) -> None:
        self._tail = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, received: bytes) -> Iterator[bytes]:
        *lines, self._tail = (self._tail + received).split(b"\n")
        if len(self._tail) > EVENT_BYTES_MAX:
            raise EventTooLarge
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
                self._size += len(line)
                if self._size > EVENT_BYTES_MAX:
                    raise EventTooLarge
            elif not line and self._data:
                yield b"\n".join(self._data)
                self._data = []
                self._size = 0


def event(payload: bytes) -> bytes:
    return b"data: " + payload + b"\n\n"


def named_event(name: str, payload: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + payload + b"\n\n"


def comment(text: str) -> bytes:
    return b": " + text.encode() + b"\n\n"
