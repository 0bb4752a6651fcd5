"""A refused call as its gateway hands it over: who wanted what, and why it did not get it.

Pure. It holds no money and no prompt. A refusal stands for one call, or for several of one key that
were refused for one reason in one minute.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

MESSAGE_MAX = 300
BODY_MAX = 100_000
"""Refusals that are read of one body. A larger one is not believed."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Of several calls `rid` and `at_us` are the first one's, and `until_us` is the last one's. A
    field that is added stands last and has a default: older bodies have none."""

    rid: str
    at_us: int
    until_us: int
    calls: int = 1
    org: str
    project: str
    key: str
    model: str
    tier: str
    rule: str
    policy_revision: int
    is_canary: bool | None = None
    reason: str
    error_code: str
    message: str
    retry_after_s: float | None = None
    """When such a call may be taken; None where time cures nothing."""


class UnreadableRefusals(ValueError):
    """These bytes are no refusals."""


def encode(refusals: Sequence[Refusal]) -> bytes:
    return _ENCODER.encode(refusals)


def decode(body: bytes) -> list[Refusal]:
    """Raises UnreadableRefusals."""
    try:
        refusals = _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise UnreadableRefusals(str(error)) from error
    if len(refusals) > BODY_MAX:
        raise UnreadableRefusals(f"{len(refusals)} refusals in one body")
    return refusals


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Refusal])
