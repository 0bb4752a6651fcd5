"""Records of decisions, many in one body: what they share stands in it once.

Pure. A record is bytes, and refers to parts by their place: the pools, models and states of the
fleet that it was decided on. This module knows no routing, and does not read records or parts. It
guards that joining and thinning change no record.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Annotated, Literal, NamedTuple

import msgspec

BODY_BYTES_MAX = 64 << 20
"""Of a body that is read. A larger one is not believed."""
SAMPLE_OF = 100
"""One record of so many outlives the first day."""


class DecisionBytes(NamedTuple):
    """The record of one decision, and the parts that it refers to, in its own order."""

    rid: str
    at_us: int
    facts: bytes
    parts: Sequence[bytes]


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    rid: str
    at_us: int
    facts: bytes
    places: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]


class _Body(msgspec.Struct, frozen=True, array_like=True):
    v: Literal[1]
    parts: tuple[bytes, ...]
    entries: tuple[_Entry, ...]


class UnreadableBatch(ValueError):
    """These bytes are no body of records."""


def encode(records: Iterable[DecisionBytes]) -> bytes:
    """Records in their order. A part that several have is written once."""
    places: dict[bytes, int] = {}
    of_parts: dict[int, tuple[int, ...]] = {}
    entries = []
    whole = list(records)  # as long as they live, an id is that of one list of parts
    for each in whole:
        if (known := of_parts.get(id(each.parts))) is None:
            known = tuple([places.setdefault(part, len(places)) for part in each.parts])
            of_parts[id(each.parts)] = known
        entries.append(_Entry(each.rid, each.at_us, each.facts, known))
    return zlib.compress(_ENCODER.encode(_Body(1, tuple(places), tuple(entries))))


def decode(body: bytes) -> list[DecisionBytes]:
    """Raises UnreadableBatch."""
    try:
        plain = zlib.decompressobj()
        read = _DECODER.decode(plain.decompress(body, BODY_BYTES_MAX))
        return [
            DecisionBytes(e.rid, e.at_us, e.facts, [read.parts[place] for place in e.places])
            for e in read.entries
        ]
    except (zlib.error, msgspec.MsgspecError, IndexError) as error:
        raise UnreadableBatch(str(error)) from error


def is_sampled(rid: str) -> bool:
    """Whether the record of a call is kept after the first day: a hash of its id says so."""
    return int.from_bytes(sha256(rid.encode()).digest()[:4], "big") % SAMPLE_OF == 0


def thinned(
    records: Iterable[DecisionBytes], keep: Callable[[str], bool] = is_sampled
) -> list[DecisionBytes]:
    return [each for each in records if keep(each.rid)]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Body)
