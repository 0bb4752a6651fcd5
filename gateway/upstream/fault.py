"""What a server said when it refused a call, fit to be kept: pure.

A fault stands in the attempt's record, the log and the console, which operators read. So it holds
no key, and nothing of the call: a server may quote either.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from billing.types import UNREADABLE

DETAIL_CHARS_MAX = 200
KEY = "[key]"
QUOTED = "[what quotes the call is not kept]"
QUOTE_CHARS = 16
"""So many characters in a row that stand in the call, too, are a quotation."""
KEY_HEAD_CHARS, KEY_CHARS_MIN = 4, 8
"""Some servers quote the first letters of a key and hide the rest behind stars."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The status of a server's answer, None where no answer came, and what it said: its first 200
    characters."""

    status: int | None
    detail: str

    @property
    def label(self) -> str:
        return "none" if self.status is None else str(self.status)


def fault_of(status: int, body: bytes, secrets: Sequence[str], request: bytes) -> Fault:
    """Of the answer to a request whose body was `request`."""
    text = without_secrets(_one_line(_unescaped(body)), secrets)
    return Fault(status, _without_quotes(text, request)[:DETAIL_CHARS_MAX])


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with every key replaced, also one that is half hidden or half there."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, KEY)
        if len(secret) >= KEY_CHARS_MIN:
            head = re.escape(secret[:KEY_HEAD_CHARS])
            text = re.sub(rf"{head}[\w*.\-…+/=]+", KEY, text)
    return text


def _unescaped(body: bytes) -> str:
    """JSON as it is read: nothing hides behind an escape."""
    try:
        text = msgspec.json.encode(msgspec.json.decode(body)).decode()
    except UNREADABLE:
        return body.decode("utf-8", "replace")
    return text.replace("\\n", " ").replace("\\t", " ").replace('\\"', '"').replace("\\\\", "\\")


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _without_quotes(text: str, request: bytes) -> str:
    """The text up to where it begins to quote the call."""
    request_text = _one_line(" ".join(_words(request)))
    if not request_text:
        return text
    for start in range(min(len(text), DETAIL_CHARS_MAX)):
        window = text[start : start + QUOTE_CHARS]
        if len(window) == QUOTE_CHARS and window in request_text:
            return text[: min(start, DETAIL_CHARS_MAX - len(QUOTED))] + QUOTED
    return text


def _words(request: bytes) -> Iterator[str]:
    """Whatever the caller wrote: every text of the body but the model, which is ours."""
    try:
        body = msgspec.json.decode(request)
    except UNREADABLE:
        return
    fields = {k: v for k, v in body.items() if k != "model"} if isinstance(body, dict) else body
    yield from _texts(fields)


def _texts(value: Any) -> Iterator[str]:
    unread = [value]
    while unread:
        match unread.pop():
            case str(text):
                yield text
            case list(items):
                unread += items
            case dict(fields):
                unread += fields.values()
