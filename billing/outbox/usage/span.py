"""A part of booking order that is sent as one batch.

Pure. A span says where it begins and ends, and the calls in it are read each time it is sent. They
are the same each time, since nothing is booked at a place that has passed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256

from billing.outbox.event import EventType

RANGES_MAX = 8
GAP_US = 60_000_000

Key = tuple[int, str]
"""A place in booking order, and a request id in it."""
Range = tuple[int, int]
Correction = tuple[str, int]
"""A request id, and the number of its record."""


@dataclass(frozen=True, slots=True)
class UsageSpan:
    """What is behind `after`, up to and including `upto`. Its calls ended within `ended`: so they
    are found along an index. An `org` of "" is every organization."""

    endpoint_id: str
    org: str
    after: Key
    upto: Key
    ended: tuple[Range, ...]
    corrections: tuple[Correction, ...]

    @property
    def event_id(self) -> str:
        named = f"{EventType.USAGE}\n{self.endpoint_id}\n{self.after}\n{self.upto}"
        return f"evt_{sha256(named.encode()).hexdigest()[:24]}"

    @property
    def body(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    def has(self, key: Key) -> bool:
        return self.after < key <= self.upto


def span_of(body: str) -> UsageSpan:
    fields = json.loads(body)
    for name in ("after", "upto"):
        fields[name] = tuple(fields[name])
    for name in ("ended", "corrections"):
        fields[name] = tuple(map(tuple, fields[name]))
    return UsageSpan(**fields)


def ranges(parts: Iterable[Range]) -> list[Range]:
    """A few ranges that hold all of these, the earliest first. What lies closer than a minute
    together is one range. Many that lie further apart are joined, too."""
    ordered = sorted(parts)
    gap_us = GAP_US
    while True:
        joined: list[Range] = []
        for first, last in ordered:
            if joined and first - joined[-1][1] <= gap_us:
                joined[-1] = joined[-1][0], max(last, joined[-1][1])
            else:
                joined.append((first, last))
        if len(joined) <= RANGES_MAX:
            return joined
        ordered, gap_us = joined, 2 * gap_us
