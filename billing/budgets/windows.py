"""The time over which a budget counts: periods of a calendar in a time zone, a rolling span, or all
time.

Pure. A period is a function of time, and nothing is ever reset: a new period begins because its
instant has come. Guards that periods tile time, so that each instant lies in exactly one, also with
daylight saving, leap days and short months. Guards also that a rolling span never counts too
little.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
BUCKETS = 50
"""Parts of a rolling span: it is at most a fiftieth longer than it says."""
ROLLING_S_MIN, ROLLING_S_MAX = 60, 366 * 86_400
UTC_NAME = "UTC"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class BadWindow(ValueError):
    """Nothing can be counted over this window. The message is written for the person who asked for
    it."""


class Unit(StrEnum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


ANCHORS = {
    Unit.DAY: datetime(1970, 1, 1),
    Unit.WEEK: datetime(1970, 1, 5),
    Unit.MONTH: datetime(1970, 1, 1),
    Unit.YEAR: datetime(1970, 1, 1),
}
"""Where nothing else is said: midnight, Monday, the first, the first of January."""


@dataclass(frozen=True, slots=True)
class BudgetPeriod:
    """[start_us, end_us) in epoch microseconds; an end of None never comes."""

    start_us: int
    end_us: int | None

    def __contains__(self, at_us: int) -> bool:
        return self.start_us <= at_us and (self.end_us is None or at_us < self.end_us)


EVER = BudgetPeriod(0, None)


@dataclass(frozen=True, slots=True)
class Calendar:
    """Periods of one unit. A period begins at `anchor`, a local time, plus a whole number of units.
    A day that a month does not have is the month's last day: the 31st of April is the 30th, the
    29th of February is the 28th in other years. Each beginning is computed from the anchor, so the
    31st comes back."""

    unit: Unit
    zone: str = UTC_NAME
    anchor: datetime = datetime(1970, 1, 1)

    @property
    def kind(self) -> str:
        return self.unit.value


@dataclass(frozen=True, slots=True)
class Rolling:
    """The last `span_s` seconds, counted in whole parts of them."""

    span_s: int
    kind: ClassVar[str] = "rolling"

    @property
    def span_us(self) -> int:
        return self.span_s * SECOND_US

    @property
    def width_us(self) -> int:
        """The length of one part of the span."""
        return self.span_us // BUCKETS

    def bucket_us(self, at_us: int) -> int:
        """The beginning of the part in which an instant lies."""
        return at_us - at_us % self.width_us

    def oldest_us(self, at_us: int) -> int:
        """The beginning of the oldest part that counts at an instant. A part that the span cuts
        counts whole."""
        return self.bucket_us(at_us - self.span_us)


@dataclass(frozen=True, slots=True)
class Ever:
    """One period without an end."""

    kind: ClassVar[str] = "total"


Window = Calendar | Rolling | Ever


def checked(window: Window) -> Window:
    """The same window. Raises BadWindow for one that nothing can be counted over."""
    match window:
        case Rolling(span_s=span_s) if not ROLLING_S_MIN <= span_s <= ROLLING_S_MAX:
            raise BadWindow(f"a rolling window has {ROLLING_S_MIN} to {ROLLING_S_MAX} seconds")
        case Calendar(zone=zone, anchor=anchor):
            zone_of(zone)
            if anchor.tzinfo is not None or not 1970 <= anchor.year <= 2100:
                raise BadWindow("an anchor is a local time of the years 1970 to 2100")
    return window


@lru_cache(1_000)
def zone_of(name: str) -> tzinfo:
    """A zone of the IANA database; raises BadWindow for any other name."""
    if name == UTC_NAME:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as unknown:
        raise BadWindow(f"there is no time zone {name!r}") from unknown


def period_of(window: Calendar | Ever, at_us: int) -> BudgetPeriod:
    """The period in which an instant lies."""
    if isinstance(window, Ever):
        return EVER
    period = _period_of_minute(window, at_us // MINUTE_US)
    return period if at_us in period else _reckoned(window, at_us)


@lru_cache(10_000)
def _period_of_minute(window: Calendar, minute: int) -> BudgetPeriod:
    """The period of the minute's first instant. It is cached, so that the calls of one minute share
    it."""
    return _reckoned(window, minute * MINUTE_US)


def _reckoned(window: Calendar, at_us: int) -> BudgetPeriod:
    zone = zone_of(window.zone)
    local = (_EPOCH + timedelta(microseconds=at_us)).astimezone(zone).replace(tzinfo=None)
    number = _about(window, local)
    while _start_us(window, number, zone) > at_us:
        number -= 1
    while (end_us := _start_us(window, number + 1, zone)) <= at_us:
        number += 1
    return BudgetPeriod(_start_us(window, number, zone), end_us)


def _about(window: Calendar, local: datetime) -> int:
    """The number of whole units between the anchor and a local time. It may be wrong by one."""
    anchor = window.anchor
    match window.unit:
        case Unit.DAY:
            return (local - anchor) // timedelta(days=1)
        case Unit.WEEK:
            return (local - anchor) // timedelta(weeks=1)
        case Unit.MONTH:
            return (local.year - anchor.year) * 12 + local.month - anchor.month
        case Unit.YEAR:
            return local.year - anchor.year


def _start_us(window: Calendar, number: int, zone: tzinfo) -> int:
    """The beginning of a period. Where clocks are put forward, a local time that does not come is
    read with the offset before the change. Where a local time comes twice, the first one counts
    (RFC 5545, 3.3.5)."""
    local = _local_start(window, number)
    return (local.replace(tzinfo=zone) - _EPOCH) // _MICROSECOND


def _local_start(window: Calendar, number: int) -> datetime:
    anchor = window.anchor
    match window.unit:
        case Unit.DAY:
            return anchor + timedelta(days=number)
        case Unit.WEEK:
            return anchor + timedelta(weeks=number)
        case Unit.MONTH:
            years, month = divmod(anchor.month - 1 + number, 12)
            return _clamped(anchor, anchor.year + years, month + 1)
        case Unit.YEAR:
            return _clamped(anchor, anchor.year + number, anchor.month)


def _clamped(anchor: datetime, year: int, month: int) -> datetime:
    return anchor.replace(year=year, month=month, day=min(anchor.day, monthrange(year, month)[1]))
