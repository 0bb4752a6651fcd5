"""Server-sent events, both ways: a decoder that does not care how TCP cut the bytes, an encoder.

Only `data:` lines matter to OpenAI-shaped streams; comments and other fields are passed over.
"""

DONE = b"[DONE]"
EVENT_BYTES_MAX = 4 * 1024 * 1024


class SseDecoder:
    """Feed bytes as they come, get the payload of every finished event.

    Bytes are copied at most twice; what is kept is the unfinished event, its line
    and its lines each bounded by `EVENT_BYTES_MAX`. Once an event `is_too_large` the stream is not
    to be trusted any more.
    """

    def __init__(self) -> None:
        self._tail = b""
        self._data: list[bytes] = []
        self._size = 0
        self.is_too_large = False

    def feed(self, received: bytes) -> list[bytes]:
        """Events that are whole now, up to one that is too large."""
        text = self._tail + received
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        *lines, self._tail = text.split(b"\n")
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
                self._size += len(line)
                if self._size > EVENT_BYTES_MAX:
                    self.is_too_large = True
                    return events
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
                self._size = 0
        self.is_too_large = len(self._tail) > EVENT_BYTES_MAX
        return events


def event(payload: bytes) -> bytes:
    return b"data: " + payload + b"\n\n"


def named_event(name: str, payload: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + payload + b"\n\n"


def comment(text: str) -> bytes:
    return b": " + text.encode() + b"\n\n"
