"""A span of time as buckets and pages of them, in whole seconds of UTC, half-open.

Pure. Buckets begin at whole minutes, hours or days; where the span begins or ends inside one, that
bucket is cut to the span, so a bucket's own times always say what it sums.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from gateway.errors import ApiError, bad_request


class Width(StrEnum):
    MINUTE = "1m"
    HOUR = "1h"
    DAY = "1d"

    @property
    def seconds(self) -> int:
        return {Width.MINUTE: 60, Width.HOUR: 3_600, Width.DAY: 86_400}[self]


@dataclass(frozen=True, slots=True)
class Bucket:
    from_s: int
    to_s: int

    def start_us(self, width: Width) -> int:
        """The whole minute, hour or day it lies in, as the ledger names it."""
        return (self.from_s - self.from_s % width.seconds) * 1_000_000


@dataclass(frozen=True, slots=True)
class BucketPage:
    """Never without a bucket. `next_page` is None on the last one."""

    buckets: tuple[Bucket, ...]
    next_page: str | None

    @property
    def from_us(self) -> int:
        return self.buckets[0].from_s * 1_000_000

    @property
    def to_us(self) -> int:
        return self.buckets[-1].to_s * 1_000_000

    def until(self, at_us: int) -> "BucketPage":
        """Its buckets that end by an instant, but the first in any case; the rest come next."""
        buckets = [b for b in self.buckets if b.to_s * 1_000_000 <= at_us] or self.buckets[:1]
        if len(buckets) == len(self.buckets):
            return self
        return BucketPage(tuple(buckets), _cursor(self.buckets[len(buckets)].from_s))


def page_of(
    start_s: int, end_s: int | None, width: Width, limit: int, cursor: str | None, now_s: int
) -> BucketPage:
    """The buckets of [start, end) from the cursor on, `limit` at most.

    Without an end the span goes to the end of the bucket of now, and so cuts no hour. Raises
    ApiError 400 for a span of no time and for a cursor that is not of this span.
    """
    end = _ceiling(max(now_s, start_s) + 1, width) if end_s is None else end_s
    if end <= start_s:
        raise bad_request("end_time: Must be after start_time.", "end_time")
    begin = start_s if cursor is None else _begin(cursor, start_s, end, width)
    buckets: list[Bucket] = []
    for bucket in _buckets(begin, end, width):
        if len(buckets) == limit:
            return BucketPage(tuple(buckets), _cursor(bucket.from_s))
        buckets.append(bucket)
    return BucketPage(tuple(buckets), None)


def _buckets(from_s: int, to_s: int, width: Width) -> Iterator[Bucket]:
    while from_s < to_s:
        end_s = min(_ceiling(from_s + 1, width), to_s)
        yield Bucket(from_s, end_s)
        from_s = end_s


def _ceiling(at_s: int, width: Width) -> int:
    return -(-at_s // width.seconds) * width.seconds


def _cursor(from_s: int) -> str:
    return "page_" + base64.urlsafe_b64encode(from_s.to_bytes(8, "big")).decode()


def _begin(cursor: str, start_s: int, end_s: int, width: Width) -> int:
    try:
        packed = base64.b64decode(cursor.removeprefix("page_"), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _no_cursor() from None
    begin = int.from_bytes(packed, "big")
    if len(packed) != 8 or not start_s < begin < end_s or begin % width.seconds:
        raise _no_cursor()
    return begin


def _no_cursor() -> ApiError:
    return bad_request("page: Not a next_page of this span and width.", "page")
