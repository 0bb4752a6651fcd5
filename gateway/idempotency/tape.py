"""What a running answer is written down as: a tape of parts, and what a replay makes of one.

Pure. A part is the head (status and headers), a piece of the body or the end, as ASGI sent them;
played back in order they are the answer byte for byte. A tape without its end whose runner has gone
has no rest, and never gets one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

HEAD, BODY, END = b"h", b"b", b"e"
REPLAYED = (b"idempotent-replayed", b"true")


class TapeState(StrEnum):
    """Of a key's claim. `running` with a lease that has ended reads as `lapsed`; `gone` is what
    nobody has: released, expired, or lost with Redis. Three are not kept: the answer is larger than
    one may be, the organization's answers leave no room for it, or Redis has lost its beginning."""

    RUNNING = "running"
    FINISHED = "finished"
    TOO_LARGE = "too_large"
    NO_ROOM = "no_room"
    TORN = "torn"
    LAPSED = "lapsed"
    GONE = "gone"


UNKEPT = (TapeState.TOO_LARGE, TapeState.NO_ROOM, TapeState.TORN)
HAS_NO_REST = (TapeState.LAPSED, TapeState.FINISHED)
"""If the end is not there by now, it will not come."""


def parts_of(message: Mapping[str, Any]) -> list[bytes]:
    """An ASGI message of a response as parts."""
    if message["type"] == "http.response.start":
        headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in message["headers"]]
        return [HEAD + msgspec.json.encode((message["status"], headers))]
    parts = [BODY + message["body"]] if message.get("body") else []
    return parts if message.get("more_body") else [*parts, END]


@dataclass(slots=True)
class Player:
    """Turns parts into ASGI messages. The head waits for what comes after it, so that an answer
    of which nothing but the head is known can still be told as an error."""

    has_begun: bool = False
    has_ended: bool = False
    _head: dict[str, Any] | None = field(default=None)

    def play(self, parts: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        for part in parts:
            kind, payload = part[:1], part[1:]
            if kind == HEAD:
                self._head = _start(payload)
                continue
            if self._head is not None:
                self.has_begun = True
                yield self._head
                self._head = None
            self.has_ended = kind == END
            yield {
                "type": "http.response.body",
                "body": payload,
                "more_body": not self.has_ended,
            }


def _start(payload: bytes) -> dict[str, Any]:
    status, headers = msgspec.json.decode(payload, type=tuple[int, list[tuple[str, str]]])
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return {"type": "http.response.start", "status": status, "headers": [*raw, REPLAYED]}
