"""What answers in one document have in common: counts that a server reports, and one frame."""

import math

import msgspec

from billing.types import Usage
from gateway.call.frame import Frame, ResultChoice
from gateway.upstream.answer import Cut

COUNT_MAX = 2**53


def count(said: float | None, otherwise: int) -> int:
    """A count of the server's, rounded up; raises Cut for what is none."""
    if said is None:
        return otherwise
    if not 0 <= said <= COUNT_MAX:
        raise Cut(f"a count of {said}")
    return math.ceil(said)


def result_frame(document: bytes, usage: Usage) -> Frame:
    choice = ResultChoice(finish_reason="stop", result=msgspec.Raw(document))
    return Frame((choice,), usage)
