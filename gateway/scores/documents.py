"""What answers in one document have in common: a shape, counts that a server reports, one frame."""

import math
from typing import Any

import msgspec

from billing.types import UNREADABLE, Usage
from gateway.call.frame import Frame, ResultChoice
from gateway.upstream.answer import Cut

COUNT_MAX = 2**53
NOT_THERE = msgspec.Raw(b"null")


def decoded(body: bytes, kind: type[Any]) -> Any:
    """Raises Cut for another shape."""
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE as malformed:
        raise Cut(f"a malformed document: {malformed}") from malformed


def count(said: float | None, otherwise: int) -> int:
    """A count of the server's, rounded up; raises Cut for what is none."""
    if said is None:
        return otherwise
    if not 0 <= said <= COUNT_MAX:
        raise Cut(f"a count of {said}")
    return math.ceil(said)


def result_frame(document: bytes, usage: Usage, choices: int = 1) -> Frame:
    """All of an answer: the first of its choices has it, and the others have ended too."""
    results = (msgspec.Raw(document), *[NOT_THERE] * (choices - 1))
    return Frame(
        tuple(
            ResultChoice(index=index, finish_reason="stop", result=each)
            for index, each in enumerate(results)
        ),
        usage,
    )
